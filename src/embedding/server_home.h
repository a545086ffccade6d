// A server inside a process that trains: its own member of the job, its own thread.
//
//   start ── join ── serve ── all workers have left ── end
//                       └──── abort(), or the job's failure ──┘
#pragma once

#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "sparse/server.h"

namespace sumcast::embedding {

/// Seats only where there is something to go on with.
template <typename Member>
auto make_member(sparse::Seat& seat, const sparse::Options& options) {
  return seat.has_standby() ? Member::create(seat, options)
                            : Member::create(seat.context(), options);
}

class ServerHome {
 public:
  /// @param member       of the server's rank.
  /// @param coordinator  replaces the member's; "": rank 0 did not get so far, and nobody will.
  ServerHome(sumcast::Options member, const sparse::Options& rows,
             std::shared_future<std::string> coordinator);
  /// finish().
  ~ServerHome();

  /// Waits for the workers to leave, a moment at most, and ends the job then. While it is joining:
  /// at most the join_timeout.
  void finish();
  /// From any thread. What is not joined yet ends when it is.
  void abort(const std::string& reason);
  /// Rows held.
  size_t rows() const;

 private:
  Result<void> live(sumcast::Options member, const sparse::Options& rows,
                    const std::shared_future<std::string>& coordinator);

  void leave();

  mutable std::mutex mutex_;
  std::condition_variable ended_;
  std::unique_ptr<sparse::Seat> seat_;  // Where they are, from joining to leaving.
  std::unique_ptr<sparse::Server> server_;
  std::optional<std::string> aborted_;
  bool has_ended_ = false;
  std::thread thread_;  // Last: it uses all of the above.
};

}  // namespace sumcast::embedding

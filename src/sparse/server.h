// A server: holds the rows of its keys and serves all workers, round by round.
//
// One thread per worker reads that worker's messages. The thread that brings the last body of a
// segment applies it and answers everybody, while the others already read the next segment: rows
// stream in and out at once.
//
//     worker 0's thread   plan  seg 0  seg 1  seg 2                             | plan ...
//     worker 1's thread   plan  seg 0     seg 1                                 | plan ...
//     worker 2's thread   plan        seg 0 (apply, reply)  seg 1 (apply, reply) | plan ...
//                                                     all segments answered -----^
//
// With staleness a worker's thread reads on while rounds before are open (round_book.h): each open
// round has papers of its own. In an asynchronous job it applies and answers by itself what it has
// read, segment by segment, under the segment's lock.
//
// It ends when all workers have left, or with the error that ended the job. Where members have
// seats (seat.h) it outlives their aggregator: rows stay, messages begin anew in the next context,
// and a step that a segment has committed is not applied again when the workers repeat it (P16,
// P17).
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/result.h"
#include "sparse/frames.h"
#include "sparse/options.h"
#include "sparse/round_book.h"
#include "sparse/seat.h"
#include "sparse/segment.h"
#include "sumcast/sumcast.hpp"

namespace sumcast::sparse {

class Server {
 public:
  /// @param context  a member of rank workers .. workers + servers - 1; outlives the server. All
  ///                 members of the job call create() (here or in worker.h) at the same time.
  /// kMismatch if members have other options, or a checkpoint is of other rows; it is read here.
  static Result<std::unique_ptr<Server>> create(Context& context, const Options& options);
  /// The same, and going on in the seat's next context when its aggregator goes away. All members
  /// have seats, or none.
  static Result<std::unique_ptr<Server>> create(Seat& seat, const Options& options);
  ~Server();

  /// Told of each step of a segment, right after it was committed and before anybody else hears of
  /// it, on the thread that committed it. Set before run().
  void observe_commits(std::function<void(uint32_t segment, uint64_t step)> observer) {
    on_commit_ = std::move(observer);
  }

  /// Serves until all workers have left; blocks. Idle time is not limited, for workers may compute
  /// for long; a worker's death ends it within two seconds.
  Result<void> run();

  /// Rows held, all segments together. While run() is under way: as of the last round.
  size_t rows() const { return rows_.load(std::memory_order_relaxed); }

 private:
  struct Desk;   // What one worker's thread works with.
  struct Paper;  // What a worker says in one round.

  Server(Context& context, Seat* seat, const Options& options);
  static Result<std::unique_ptr<Server>> create_in(Context& context, Seat* seat,
                                                   const Options& options);
  Result<void> serve_all();
  Result<void> move_on();
  Result<void> go_back();
  void enter_context();
  /// A worker's part of a segment is here. The last one applies and answers.
  Result<void> arrive(const Paper& paper, uint32_t segment);
  Result<void> wait_until(const std::function<bool()>& is_so);
  Result<void> end_round(const Paper& paper);
  Result<void> acknowledge(std::span<const uint32_t> rounds, uint32_t marks);
  void fail_all(const Error& error);

  // server_reading.cc
  Result<void> serve(uint32_t worker);
  Result<void> begin_round(Desk& desk);
  Result<void> check(const Paper& paper) const;
  Result<void> let_go(Desk& desk, const Plan& plan);
  Result<void> let_move(Desk& desk);
  Result<void> read_bodies(Paper& paper);
  Result<void> read_order(Paper& paper);

  // server_segments.cc
  Paper& paper(uint32_t worker, uint32_t round);
  Result<void> check_keys(const Paper& paper, uint32_t segment) const;
  Result<void> take_in(const Paper& paper, uint32_t segment);
  Result<void> step(uint32_t round, uint32_t segment);
  Result<void> answer(uint32_t round, uint32_t segment);
  Result<void> reply(Paper& paper, uint32_t segment);
  bool is_mine(uint64_t key, uint32_t segment) const;

  // server_alone.cc
  Result<void> answer_alone(Paper& paper, uint32_t segment);
  Result<void> step_alone(const Paper& paper, uint32_t segment);
  Result<void> end_alone(Paper& paper);
  Result<void> join_save(const Paper& paper);

  // server_checkpoint.cc
  Result<void> restore();
  Result<void> save(const SaveOrder& order, uint32_t round);
  Result<SavedFile> write_part(const SaveOrder& order);

  Context* context_;  // The seat's present one, if there is a seat.
  Seat* seat_;        // Null: the first failure is the last.
  Options options_;
  std::vector<std::unique_ptr<Segment>> segments_;
  RoundBook book_;
  std::vector<std::mutex> segment_locks_;  // Asynchronous: of segments_.
  std::vector<std::unique_ptr<Desk>> desks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Error> failed_;
  uint32_t saving_ = 0;                // Asynchronous: workers that wait for a checkpoint.
  uint32_t saves_ = 0;                 // That are done.
  std::vector<uint32_t> save_rounds_;  // By worker.
  std::optional<uint32_t> left_;       // A worker that is done.
  std::vector<bool> has_left_;         // By worker.
  bool is_moving_ = false;             // Some worker goes on in a better place, so all do.
  std::vector<Ack> acks_;              // By worker, as long as the message is under way.
  std::optional<Work> acknowledging_;
  SaveReceipt receipt_;
  std::optional<Work> receipting_;
  std::function<void(uint32_t, uint64_t)> on_commit_;
  std::atomic<size_t> rows_{0};
};

/// Looks whether the directory has the checkpoint that the options name, or none if they name none;
/// then compares everybody's options. Called by all members of the context. kMismatch: they differ.
Result<void> agree_on(Context& context, const Options& options);

}  // namespace sumcast::sparse

// Finds the way back to an aggregator that went away and has returned (P23), beside the training.
//
//   rank 0        look (a connection, now and then)                 somebody is there
//   rank 0        "join place p, attempt n" to all                  messages of the present context
//   all           join a context there, open the workers' team      seconds, on this thread
//   all           vote: "I am in"                                    from here the member keeps it
//   rank 0        all are in: ready                                  the training may move over
//
// One member looks; the others hear of it. When to move is not decided here: worker 0 says so in a
// round (frames.h). A member that has voted keeps what it joined until it is told to drop it, so
// that those who lose the present context meanwhile find each other there (seat.h).
//
// Threads: one of its own, while the member is away from the first place; all methods are called by
// the thread that trains, is_ready() by any.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "sparse/return_pace.h"
#include "sumcast/sumcast.hpp"

namespace sumcast::sparse {

/// A context that all members have joined at a place, and the workers' group there.
struct Found {
  size_t place = 0;
  std::shared_ptr<Context> context{};
  std::optional<Group> team{};  ///< Of workers only.
};

struct ScoutSetup {
  uint32_t rank = 0, members = 0;
  std::vector<std::string> addresses;  ///< By place; those in front are better.
  Duration first_hold_off = 1s;        ///< After a loss; above 0.
  std::function<Result<Found>(size_t place, uint32_t attempt)> join;  ///< Within some seconds.
};

class Scout {
 public:
  explicit Scout(ScoutSetup setup);
  /// Ends the thread: at once, or when a join that is under way has ended.
  ~Scout();
  Scout(const Scout&) = delete;
  Scout& operator=(const Scout&) = delete;

  /// The member is at `at` now, above 0: looks for a way back to a place before it.
  ///
  /// @param world  of the present context, which lives until this object is gone.
  /// @param serial     tells contexts apart.
  /// @param is_return  it came back to `at`: if it is lost again soon, the next hold-off is longer.
  void begin(Group world, size_t at, uint32_t serial, bool is_return);
  /// The member is back at the first place.
  void rest();
  /// The member leaves its place: what it has voted for, if it has. Nothing is looked for until
  /// begin().
  std::optional<Found> take();
  /// Rank 0: all members have voted for what take() gives. False on all others.
  bool is_ready() const { return is_ready_.load(std::memory_order_acquire); }
  /// What is not used any more, to be left without anybody waiting for that.
  void bury(Found found);
  /// The member's job has ended: ends it in what it has voted for, too. From any thread.
  void end(const std::string& reason);
  /// As the destructor. Nothing begins afterwards.
  void stop();

 private:
  struct Stay {
    uint64_t number;
    Group world;
    size_t at;
    uint32_t serial;
  };
  enum class Kind : uint32_t { kJoin = 1, kVote = 2, kVerdict = 3 };
  struct Word {
    Kind kind{};
    uint32_t attempt = 0, place = 0, yes = 0;
  };
  /// Where a peer's next word arrives. It stays posted while nobody listens.
  struct Ear {
    Word word;
    std::optional<Work> work;
  };

  void run();
  void lead(const Stay& stay);
  void follow(const Stay& stay);
  bool attempt(const Stay& stay, size_t place);
  std::optional<size_t> look(const Stay& stay, size_t first);
  bool join_and_keep(const Stay& stay, size_t place, uint32_t attempt);
  void drop(const Stay& stay);
  Result<std::optional<Word>> hear(const Stay& stay, uint32_t peer, Instant until);
  std::optional<Word> hear_of(const Stay& stay, uint32_t peer, Kind kind, uint32_t attempt,
                              Instant until);
  Result<void> tell(const Stay& stay, uint32_t peer, const Word& word);
  Result<void> tell_all(const Stay& stay, const Word& word);
  bool lasts(const Stay& stay) const;
  bool wait_for_end(const Stay& stay, Instant until);
  void forget_ears(const Stay& stay);

  ScoutSetup setup_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool is_stopping_ = false;
  uint64_t stay_ = 0;          // Changes whenever the member moves.
  std::optional<Stay> away_;   // What the thread is to do.
  std::optional<Found> kept_;  // Voted for.
  std::vector<Found> graves_;
  ReturnPace pace_;
  std::atomic<bool> is_ready_{false};
  // Of the thread alone.
  std::map<std::pair<uint32_t, uint32_t>, std::unique_ptr<Ear>> ears_;  // By context and peer.
  uint32_t attempts_ = 0;  // Made (rank 0), or heard of.
  std::thread thread_;     // Last: it uses all of the above.
};

}  // namespace sumcast::sparse

// A worker's side of sparse training: rows by key, wherever they are held.
//
//   worker.pull(keys);                               rows of the first batch
//   for (...) {
//     gradients from worker.row(i) ...
//     worker.push_pull(gradients, next_keys);        one round: all workers' gradients are in
//   }
//
// Hot keys are summed by the aggregator and their rows held here (hot_rows.h); all others go to
// servers (server.h). Callers do not see which is which: the same bits come out either way.
//
// Rounds are synchronous: all workers call the same methods in the same order, with whatever keys
// they have, none included. Every call ends within the context's timeout; a member's death is an
// error within two seconds. A call that was refused for its arguments has done nothing; after any
// other failure the job has ended, on all members: every later call returns the same error.
//
// Except where members have seats (seat.h): when the aggregator goes away they take the next
// context, and go on with the same bits. The trick is that every call is made of *operations*, each
// a barrier among the workers: who has finished one knows that all have begun it, so no worker is
// ever more than one ahead. Each keeps what it put into its last operation. In the new context they
// compare how many they have finished; those ahead go through their last one again, with the same
// inputs and without its effects, for those behind (P17).
//
// Single-threaded.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sparse/frames.h"
#include "sparse/hot_rows.h"
#include "sparse/options.h"
#include "sparse/seat.h"
#include "sumcast/sumcast.hpp"

namespace sumcast::sparse {

/// Bodies lie in whole words, for keys come first.
constexpr size_t words_for(size_t bytes) {
  return (bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t);
}

/// Totals since create(); rows, not bytes.
struct WorkerCounters {
  uint64_t rounds = 0;
  uint64_t hot_pushed = 0, cold_pushed = 0;  ///< Gradients of this worker.
  uint64_t hot_moved = 0;                    ///< Rows that moved by sums, whoever touched them.
  uint64_t cold_pulled = 0;
  uint64_t flushed = 0;
  uint64_t failovers = 0;  ///< Aggregators that went away.
  uint64_t repeated = 0;   ///< Operations gone through again for workers that were behind.
  uint64_t checkpoints = 0;
};

class Worker {
 public:
  /// @param context  a member of rank 0 .. workers - 1; outlives the worker.
  static Result<std::unique_ptr<Worker>> create(Context& context, const Options& options);
  /// The same, and going on in the seat's next context when its aggregator goes away: with the same
  /// bits as if nothing had happened. All members have seats, or none.
  static Result<std::unique_ptr<Worker>> create(Seat& seat, const Options& options);
  /// Tells the servers that this worker leaves.
  ~Worker();

  /// Makes `keys` the current ones and has their rows ready.
  ///
  /// @param keys  distinct, in any order. kMismatch if one comes twice.
  Result<void> pull(std::span<const uint64_t> keys);
  /// Gives the gradients of the current keys, waits until all workers' are in and every touched row
  /// has moved once, and makes `next` the current keys.
  ///
  /// @param gradients  f32[current keys][width], in the order in which the keys were given.
  /// @param dense      summed over the workers beside the rows, in place; as many lanes on all.
  Result<void> push_pull(const float* gradients, std::span<const uint64_t> next,
                         std::span<float> dense = {});
  /// The row of current key `i`: f32[width]. Valid until the next pull, push_pull, peek or set_hot.
  const float* row(size_t i) const { return rows_[i]; }
  size_t keys() const { return rows_.size(); }

  /// Reads rows without making any (a key that nobody has trained reads as a new row): for
  /// evaluation. All workers call it, with whatever keys. No keys are current afterwards.
  ///
  /// @param keys  distinct.  @param rows  f32[keys][width].
  Result<void> peek(std::span<const uint64_t> keys, float* rows);

  /// Names the keys that are hot from now on, hottest first, the same on all workers; none: all are
  /// cold. Rows move over with their state. No keys are current afterwards.
  Result<void> set_hot(std::span<const uint64_t> keys);
  uint32_t hot_keys() const { return hot_ ? hot_->slots() : 0; }
  /// Copies the hot rows that moved since the last flush to their servers, each worker its share;
  /// does not wait until they are there. Where the aggregator fails meanwhile they are sent once
  /// more, before the next round with the servers.
  Result<void> flush();
  /// Waits until the last flush has left this worker.
  Result<void> settle();

  /// Writes a checkpoint of all rows into Options::checkpoint_directory, hot ones by their value
  /// now: afterwards that is the directory's checkpoint, before it the old one is. All workers call
  /// it. An error is the same on all of them; after one of the disk (kSystem, kInvalidArgument) the
  /// job goes on, and its last checkpoint stands.
  ///
  /// @param full   false: only rows that moved since the last checkpoint, if there is one.
  /// @param state  what the caller wants back (read_state() in manifest.h): worker 0's counts.
  Result<void> save(bool full, std::string_view state);

  /// Element by element over all workers; in place. As Group::all_reduce, and outliving the
  /// aggregator.
  template <typename T>
  Result<void> all_reduce(std::span<T> data, Reduction reduction = Reduction::kSum) {
    return all_reduce(data.data(), data.size(), element_type_of<T>(), reduction);
  }
  Result<void> all_reduce(void* data, uint64_t count, ElementType type, Reduction reduction);
  /// all[w * count + i] = mine[i] of worker w; `mine` may be all + rank * count.
  Result<void> all_gather(const void* mine, void* all, uint64_t count, ElementType type);
  /// `data` of worker 0 arrives in `data` of all.
  Result<void> broadcast(void* data, uint64_t count, ElementType type);

  const WorkerCounters& counters() const { return counters_; }
  /// Workers only. Of the present context: what is done through it ends with its aggregator.
  Group& group() { return group_; }

 private:
  /// Keys of one segment of one server.
  struct Part {
    std::vector<uint64_t> keys;
    std::vector<uint32_t> places;  // Among the current keys.
  };
  using Parts = std::vector<Part>;  // By server and segment.
  struct Leg {                      // What is under way to and from one segment.
    std::vector<uint64_t> body;
    std::vector<float> reply;
  };
  /// What a round with the servers does.
  struct Round {
    Task task = Task::kStep;
    const Parts* pull;                 ///< Rows to ask for.
    const float* gradients = nullptr;  ///< Of the current keys; null: none.
    uint64_t step = 0;
    bool is_done = false;
  };
  using Action = std::function<Result<void>()>;

  Worker(Context& context, Seat* seat, const Options& options, std::vector<Group> groups);
  static Result<std::unique_ptr<Worker>> create_in(std::span<Context* const> contexts, Seat* seat,
                                                   const Options& options);

  Part& part_of(Parts& parts, uint64_t key) const;
  Result<void> sort_keys(std::span<const uint64_t> keys);
  void forget_keys();
  void place_rows(std::span<const uint64_t> keys);
  void count_step();
  Result<void> fail_with(const Error& error);
  Result<void> say_leave();

  // worker_rounds.cc
  void write_body(size_t part, const Round& round);
  Result<void> post_plans(const Round& round);
  Result<void> post_segment(Task task, uint32_t segment);
  Result<void> begin_cold(const Round& round);
  Result<void> finish_cold(Task task);
  Result<void> run_cold(const Round& round);
  /// What travels beside a round with the servers: sums among the workers.
  struct Sums {
    std::optional<Work> hot, dense;
  };
  Result<Sums> begin_sums(const HotRows::Addends* hot, const std::vector<float>& dense, float* out);
  static Result<void> finish_sums(Sums& sums);
  Result<void> step(const float* gradients, std::span<float> dense);
  Result<void> repeat_step(uint64_t step);
  Result<void> fetch(const Parts& parts);

  // worker_hot.cc
  Result<void> send_flush();
  Result<void> send_assignments(const Parts& shares);
  Result<void> agree_on_keys(std::span<const uint64_t> keys);
  Result<void> check_hot(size_t keys);
  Result<void> load_hot();
  Result<void> gather_hot(std::vector<float>& all);

  // worker_recovery.cc
  Result<void> perform(const Action& run, Action again);
  Result<void> perform_round(const Action& run, Action again);
  Result<void> recover(const Error& why);
  Result<void> move_on(const Error& why);
  Result<void> help_others();

  // worker_checkpoint.cc
  Result<void> order_save(const SaveOrder& order);
  Result<void> commit_save(const SaveOrder& order, std::string_view state);
  Result<void> share_outcome(const Result<void>& outcome);

  Context* context_;  // The seat's present one, if there is a seat.
  Seat* seat_;        // Null: the first failure is the last.
  Options options_;
  Call call_;
  std::optional<Error> failed_;
  size_t gradient_bytes_;
  uint32_t round_ = 0;       // In this context.
  uint64_t steps_ = 0;       // That are done; through all contexts.
  uint64_t completed_ = 0;   // Operations; through all contexts.
  Action again_;             // The last of them once more, for workers that are behind.
  std::vector<Plan> plans_;  // By server.
  Parts parts_, next_parts_;
  const Parts no_parts_;
  std::vector<Leg> legs_;
  std::vector<uint32_t> hot_slots_, hot_places_, next_hot_slots_, next_hot_places_;
  std::vector<const float*> rows_;  // Of the current keys.
  std::optional<HotRows> hot_;
  std::vector<float> dense_, last_dense_;  // Addends of this step, and of the last one.
  std::vector<float> known_dense_;         // Its sum once more, for nobody.
  struct UnderWay {
    Work work;
    size_t bytes;  // To the server that gets most.
  };
  std::optional<Work> plans_sent_, flushing_;
  std::vector<uint32_t> acks_;  // By server.
  uint32_t next_segment_ = 0;
  std::deque<UnderWay> under_way_;
  size_t bytes_under_way_ = 0;
  bool flush_due_ = false;   // Asked for, and not known to have reached all servers.
  bool flush_sent_ = false;  // In this context.
  std::vector<Plan> flush_plans_;
  std::vector<std::vector<uint64_t>> flush_bodies_;
  SaveOrder order_;
  std::vector<SaveReceipt> receipts_;  // Worker 0: by server.
  uint32_t last_number_ = 0;           // Of a checkpoint that was ordered.
  std::optional<Manifest> manifest_;   // Worker 0: of the last checkpoint that stands.
  WorkerCounters counters_;
  std::vector<Group> groups_;  // By context. Last, so first to go: operations use all of the above.
  Group group_;                // The present one.
};

}  // namespace sumcast::sparse

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
// Single-threaded.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "sparse/frames.h"
#include "sparse/hot_rows.h"
#include "sparse/options.h"
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
};

class Worker {
 public:
  /// @param context  a member of rank 0 .. workers - 1; outlives the worker.
  static Result<std::unique_ptr<Worker>> create(Context& context, const Options& options);
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
  Result<void> push_pull(const float* gradients, std::span<const uint64_t> next);
  /// The row of current key `i`: f32[width]. Valid until the next call.
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
  /// does not wait until they are there.
  Result<void> flush();
  /// Waits until the last flush has left this worker.
  Result<void> settle();

  const WorkerCounters& counters() const { return counters_; }
  /// Workers only, for dense gradients and agreements.
  Group& group() { return group_; }

 private:
  /// Keys of one segment of one server.
  struct Part {
    std::vector<uint64_t> keys;
    std::vector<uint32_t> places;  // Among the current keys.
  };
  struct Leg {  // What is under way to and from one segment.
    std::vector<uint64_t> body;
    std::vector<float> reply;
  };

  Worker(Context& context, const Options& options, Group group);

  Part& part_of(std::vector<Part>& parts, uint64_t key) const;
  Result<void> sort_keys(std::span<const uint64_t> keys);
  Result<void> step(const float* gradients, std::span<const uint64_t> next);
  void write_body(size_t part, const float* gradients);
  Result<void> post_plans(Task task);
  Result<void> post_segment(Task task, uint32_t segment);
  Result<void> finish_round(Task task);
  Result<void> begin_cold(Task task, const float* gradients);
  Result<Work> begin_hot(const float* gradients);
  Result<void> fetch();
  void forget_keys();
  void place_rows(std::span<const uint64_t> keys);
  Result<void> fail_with(const Error& error);
  Result<void> check_hot(size_t keys);
  Result<void> load_hot();

  Context& context_;
  Options options_;
  Call call_;
  std::optional<Error> failed_;
  size_t gradient_bytes_;
  uint32_t round_ = 0;
  std::vector<Plan> plans_;               // By server.
  std::vector<Part> parts_, next_parts_;  // By server and segment.
  std::vector<Leg> legs_;
  std::vector<uint32_t> hot_slots_, hot_places_, next_hot_slots_, next_hot_places_;
  std::vector<const float*> rows_;  // Of the current keys.
  std::optional<HotRows> hot_;
  struct UnderWay {
    Work work;
    size_t bytes;  // To the server that gets most.
  };
  std::optional<Work> plans_sent_, flushing_;
  uint32_t next_segment_ = 0;
  std::deque<UnderWay> under_way_;
  size_t bytes_under_way_ = 0;
  std::vector<Plan> flush_plans_;
  std::vector<std::vector<uint64_t>> flush_bodies_;
  WorkerCounters counters_;
  Group group_;  // Last, so first to go: its operations may be using all of the above.
};

}  // namespace sumcast::sparse

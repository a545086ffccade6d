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
// Rounds are synchronous, unless batches are announced ahead (Options::staleness, clock.h):
//
//   worker.pull(first);
//   worker.announce(second);                         asked for now, current after `first`
//   for (...) {
//     gradients from worker.row(i) ...
//     worker.push_pull(gradients, third);            goes out; rows of `second` came meanwhile
//   }
//
// then rounds travel while the caller computes, and a worker may be that many rounds ahead of the
// slowest. What a read contains is the same whoever is faster (P20): the same bits on every run,
// hot and cold. In asynchronous jobs (Options::asynchronous) no worker waits for another (P21).
//
// All workers call the same methods in the same order, with whatever keys
// they have, none included. Every call ends within the context's timeout; a member's death is an
// error within two seconds. A call that was refused for its arguments has done nothing; after any
// other failure the job has ended, on all members: every later call returns the same error.
//
// Except where members have seats (seat.h): when the aggregator goes away they take the next
// context, and go on with the same bits. The trick is that every call is made of *operations*, each
// a barrier among the workers: who has finished one knows that all have begun it, so no worker is
// ever more than staleness + 1 ahead. Each keeps what it put into its last ones. In the new context
// they compare how many they have finished; those ahead go through what the others lack again, with
// the same inputs and without effects (P17), and everybody posts anew what was under way.
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
#include "sparse/clock.h"
#include "sparse/flight.h"
#include "sparse/frames.h"
#include "sparse/hot_rows.h"
#include "sparse/options.h"
#include "sparse/row_codec.h"
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
  uint64_t returns = 0;    ///< Times that training went back to one that had gone away.
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

  /// Makes `keys` the current ones and has their rows ready, with all steps in them. What was
  /// announced is forgotten.
  ///
  /// @param keys  distinct, in any order. kMismatch if one comes twice.
  Result<void> pull(std::span<const uint64_t> keys);
  /// Asks for the rows of a batch to come, behind those announced before. Does not wait.
  /// kInvalidArgument: Options::staleness batches are announced already.
  Result<void> announce(std::span<const uint64_t> keys);
  /// Gives the gradients of the current keys and asks for `next`. The batch announced first becomes
  /// the current one: `next` itself if none was, and then every touched row has moved once.
  ///
  /// @param gradients  f32[current keys][width], in the order in which the keys were given.
  /// @param dense      summed over the workers beside the rows; as many lanes on all. In place,
  ///                   unless take_dense() was called, which it must be where batches are
  ///                   announced.
  Result<void> push_pull(const float* gradients, std::span<const uint64_t> next,
                         std::span<float> dense = {});
  /// Dense sums are given to `taker`, each step's once, in order, on this thread: at the turn of
  /// what was asked for with the step, or when a call below waits for all steps.
  void take_dense(std::function<void(std::span<const float>)> taker) {
    take_dense_ = std::move(taker);
  }
  /// The optimizer's rate from the next push_pull() on; the same on all workers, or that ends the
  /// job. kInvalidArgument: below 0, or 0 with FTRL.
  Result<void> set_rate(float rate);
  /// The row of current key `i`: f32[width], as Options::row_wire has it. Valid until the next
  /// pull, push_pull, peek, save or set_hot; after save() ask again.
  const float* row(size_t i) const { return rows_[i]; }
  size_t keys() const { return rows_.size(); }
  const Clock& clock() const { return clock_; }

  /// Waits until every step given so far has moved its rows and its dense sum was handed on. Keys
  /// stay current, with the rows that they have, and so do those announced.
  Result<void> catch_up();

  // All calls up to set_hot(), and save(), catch up first.

  /// Reads rows without making any (a key that nobody has trained reads as a new row): for
  /// evaluation, and exact whatever Options::row_wire says. All workers call it, with whatever
  /// keys. No keys are current or announced afterwards.
  ///
  /// @param keys  distinct.  @param rows  f32[keys][width].
  Result<void> peek(std::span<const uint64_t> keys, float* rows);

  /// Names the keys that are hot from now on, hottest first, the same on all workers; none: all are
  /// cold. Rows move over with their state. No keys are current or announced afterwards.
  /// kInvalidArgument: hot keys in an asynchronous job.
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
  using Action = std::function<Result<void>()>;
  using FlightPtr = std::unique_ptr<Flight>;
  /// An operation that is done, and may be wanted once more.
  struct Past {
    uint64_t operation;
    FlightPtr flight;  // Or:
    Action again;      // The same messages and addends, without effects.
  };

  Worker(Context& context, Seat* seat, const Options& options, Group group);
  static Result<std::unique_ptr<Worker>> create_in(Context& context, Seat* seat,
                                                   const Options& options);

  Part& part_of(Parts& parts, uint64_t key) const;
  Result<void> sort_keys(std::span<const uint64_t> keys, Batch& batch);
  void forget_keys();
  void place_rows();
  Result<void> fail_with(const Error& error);
  Result<void> say_leave();

  // worker_rounds.cc
  void write_bodies(Flight& flight, const float* gradients);
  void fill_plans(Flight& flight);
  Result<void> tell_servers(Flight& flight);
  Result<void> post_segment(Flight& flight);
  void decode_rows(Flight& flight, uint32_t segment) const;
  Result<void> begin_sums(Flight& flight);
  Result<void> post(Flight& flight, bool at_once);
  Result<void> wait_for(Flight& flight);
  Result<void> echo(const Flight& flight);

  // worker_flights.cc
  FlightPtr new_flight(Task task, uint32_t flags = 0);
  Result<void> launch(FlightPtr flight, bool at_once);
  Result<void> land(Flight& flight);
  Result<void> land_all();
  void apply(Flight& flight);
  void copy_hot_rows(Batch& batch) const;
  Result<void> show_all();
  Result<void> take_turn();
  Result<FlightPtr> run(FlightPtr flight);
  void retire(FlightPtr flight);
  void forget_past();

  // worker_hot.cc
  Result<void> send_flush();
  Result<void> send_assignments(const Parts& shares);
  Result<void> agree_on_keys(std::span<const uint64_t> keys);
  Result<void> check_hot(size_t keys);
  Result<void> load_hot();

  // worker_recovery.cc
  Result<void> perform(const Action& run, Action again);
  Result<void> perform_here(const Action& run, Action again);
  Result<void> recover(const Error& why);
  Result<void> move_on(const Error& why);
  Result<void> help_others();
  Result<void> repeat(uint64_t operation);
  Result<void> post_anew();
  void enter_context();

  // worker_return.cc
  void heed_marks(const Flight& flight);
  Result<void> go_back_if_due();
  Result<void> agree_on_return();
  Result<void> go_back();
  Result<void> say_move();

  // worker_checkpoint.cc
  Result<void> commit_save(const Flight& ordered, std::string_view state);
  Result<void> share_outcome(const Result<void>& outcome);

  Context* context_;  // The seat's present one, if there is a seat.
  Seat* seat_;        // Null: the first failure is the last.
  Options options_;
  Call call_;
  std::optional<Error> failed_;
  size_t gradient_bytes_;
  RowCodec row_codec_;
  uint32_t round_ = 0;                 // In this context.
  uint64_t entered_ = 0;               // Contexts, after the first.
  uint64_t launched_ = 0;              // Flights; through all contexts.
  uint64_t entered_at_ = 0;            // `launched_` when the present context was entered.
  std::optional<uint64_t> return_at_;  // Before the flight of that number all go back (P23).
  uint64_t completed_ = 0;             // Operations; through all contexts.
  Clock clock_;
  bool has_current_ = false;  // Servers wait for gradients of the current batch.
  bool is_fresh_ = false;     // What servers have of batches before is to be forgotten.
  Batch current_;
  std::vector<const float*> rows_;  // Of the current keys.
  std::deque<FlightPtr>
      flights_;                   // Oldest first: landed ones whose turn has not come, then others.
  std::deque<Past> past_;         // The last operations; only where there are seats.
  std::vector<FlightPtr> spare_;  // For their memory.
  std::vector<FlightPtr> echoes_;  // Of this context: rounds gone through for others.
  std::optional<HotRows> hot_;
  std::function<void(std::span<const float>)> take_dense_;
  std::span<float> dense_out_;  // During push_pull().
  std::optional<Work> flushing_;
  bool flush_due_ = false;      // Asked for, and not known to have reached all servers.
  bool flush_sent_ = false;     // In this context.
  bool flush_carried_ = false;  // By a flight.
  std::vector<Plan> flush_plans_;
  std::vector<std::vector<uint64_t>> flush_bodies_;
  uint64_t steps_before_ = 0;         // Of the jobs whose checkpoint this one took up.
  uint32_t last_number_ = 0;          // Of a checkpoint that was ordered.
  std::optional<Manifest> manifest_;  // Worker 0: of the last checkpoint that stands.
  WorkerCounters counters_;
  Group group_;  // The seat's present one. Last, so first to go: operations use all of the above.
};

}  // namespace sumcast::sparse

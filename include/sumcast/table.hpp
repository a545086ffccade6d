// Tables of rows by key, shared by the ranks of a job: embeddings that are too large, or too
// sparse, for a tensor on every rank.
//
//   auto table = sumcast::Table::open(options, {.width = 16, .optimizer = "adagrad"});
//   (*table)->pull(keys, rows);                  rows of this rank's batch
//   ... gradients from rows ...
//   (*table)->push(gradients);                   all ranks' gradients are in, each row moved once
//
// Every rank is a worker; the first `servers` of them hold the rows as well, each a share of the
// keys, in threads of their own. Keys are any u64; a row is made when it is first pulled, the same
// wherever that happens. Keys that are hot are summed by the aggregator instead (set_hot), with the
// same bits.
//
// Rounds are synchronous: all ranks call the same methods in the same order, with whatever keys
// they have, none included. Every call ends within the job's timeout; a rank's death is an error
// on all others within two seconds. A call that was refused for its arguments has done nothing,
// and waits to be made again; after any other failure the table has ended, on all ranks: each later
// call returns the same error.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sumcast/sumcast.hpp"

namespace sumcast {

/// Equal on all ranks, but for the directory's name.
struct TableOptions {
  uint32_t width = 1;  ///< f32 lanes of a row.
  /// How a row moves by the sum of its gradients: "sgd", "momentum", "adagrad",
  /// "rowwise-adagrad", "adam", "ftrl". Only rows that were touched move (docs/numerics.md N23).
  std::string optimizer = "sgd";
  float rate = 0.01f;  ///< FTRL: alpha.
  float momentum = 0.9f;
  float beta1 = 0.9f, beta2 = 0.999f;       ///< Of Adam.
  float epsilon = 1e-8f;                    ///< Of both Adagrads and Adam; above 0.
  float beta = 1.0f, l1 = 0.0f, l2 = 0.0f;  ///< Of FTRL.
  float initial = 0.0f;                     ///< Of Adagrad's and FTRL's sums of squares.
  float init_scale = 0.0f;                  ///< New rows: uniform in [-scale, scale].
  uint64_t seed = 1;                        ///< Of new rows.
  uint32_t servers = 0;                     ///< Ranks that hold rows; 0: all, or the first 16.
  uint32_t segments = 4;  ///< Parts of a server's rows that are answered one by one, 1..256.
  /// How gradients travel: kNative, kBF16, kFP16 or kInt8.
  WireFormat wire = WireFormat::kNative;
  /// How rows travel to the ranks that pull them: the same formats. All but kNative round what
  /// pull() and push() give, hot rows alike (docs/numerics.md N24); the table keeps, moves and
  /// saves exact rows, and peek() reads them.
  WireFormat row_wire = WireFormat::kNative;
  /// For save(): all ranks see it. Made if it is not there. Empty: nothing is saved.
  std::string checkpoint_directory;
  /// Go on from the directory's checkpoint, if it has one. It may be of other numbers of ranks and
  /// servers, and of other rates. Without, a directory that has one is refused.
  bool resume = false;
  /// Above 0: rank 0 looks every `track` rounds which keys of its batches are worth being hot, so
  /// many at most, and all take them up. Only with an aggregator, or links, that make it pay.
  uint32_t hot_max = 0;
  uint32_t track = 100;
  /// The first so many updates of a key (pushes by any number of ranks in one round) are counted
  /// and dropped: then it gets a row. Until then it reads as a new row (P24).
  uint32_t admit_after = 0;
  /// A key without update for so many pushes is as new, its row free; 0: never.
  uint32_t evict_after = 0;
  /// Rows of all ranks together, each segment its share; 0: no limit. Where it is full the row
  /// updated longest ago makes room if rows may go (evict_after), or kUnavailable ends the table.
  uint64_t max_rows = 0;
};

/// Totals of this rank since open(); rows, not bytes.
struct TableCounters {
  uint64_t rounds = 0;                       ///< With the servers: each pull, push and peek is one.
  uint64_t hot_pushed = 0, cold_pushed = 0;  ///< Gradients given.
  uint64_t hot_moved = 0;                    ///< Hot rows moved by sums, whoever touched them.
  uint64_t cold_pulled = 0;                  ///< Rows asked of servers.
  uint64_t hot_keys = 0;                     ///< Now.
  uint64_t hot_changes = 0;                  ///< By `track`.
  uint64_t rows_held = 0;                    ///< By this rank's server, now.
  uint64_t failovers = 0, checkpoints = 0;
  uint64_t returns = 0;  ///< To an aggregator that was lost before.
};

/// One call at a time; calls from several threads take turns.
class Table {
 public:
  /// Joins as a job of its own: `job` says how ranks meet (rank, world, coordinator or aggregator,
  /// key), as for Context::create, with another name than other jobs of the daemon. One rank alone
  /// needs none of it. Blocks until all ranks are there, at most join_timeout. kMismatch, on all
  /// ranks: they have other options.
  static Result<std::unique_ptr<Table>> open(const Options& job, const TableOptions& options);
  /// Leaves. Waits for other ranks to leave too, two seconds at most: then they get an error from
  /// what they still call.
  ~Table();

  uint32_t width() const;

  /// Makes `keys` the current ones and copies their rows.
  ///
  /// @param keys  distinct, in any order; kInvalidArgument otherwise.  @param rows f32[keys][width]
  Result<void> pull(std::span<const uint64_t> keys, float* rows);
  /// Gives the gradients of the current keys; when it returns, all ranks' gradients were summed, in
  /// rank order, and every touched row has moved once. Current keys are touched, whatever their
  /// gradient. `next` become the current keys in the same round.
  ///
  /// @param gradients  f32[current keys][width], in the order of the keys.
  /// @param next       as keys of pull().  @param rows  f32[next][width]; null if next is empty.
  Result<void> push(std::span<const float> gradients, std::span<const uint64_t> next = {},
                    float* rows = nullptr);
  /// The optimizer's rate from the next push on: a schedule. Equal on all ranks, or that ends the
  /// table. kInvalidArgument: below 0, or 0 with FTRL.
  Result<void> set_rate(float rate);
  /// Reads rows and makes none: a key that was never pulled reads as its new row. The current keys
  /// stay what they are.
  Result<void> peek(std::span<const uint64_t> keys, float* rows);
  size_t keys() const;  ///< That are current.

  /// Names the keys that are hot from now on, hottest first, equal on all ranks; none: all are
  /// cold. The current keys stay what they are.
  Result<void> set_hot(std::span<const uint64_t> keys);

  /// Writes a checkpoint of all rows, with `state` of rank 0 beside them: afterwards it is the
  /// directory's, before it the old one is. An error is the same on all ranks; after one of the
  /// disk (kSystem, kInvalidArgument) the table goes on.
  ///
  /// @param full  false: only rows that moved since the last one, if there is one.
  Result<void> save(bool full, std::string_view state);
  /// Was a checkpoint taken up by open()? Its state.
  const std::optional<std::string>& restored() const;

  TableCounters counters() const;
  /// Ends the table on all ranks, from any thread: a call that waits returns kAborted.
  void abort(const std::string& reason);

  struct Impl;  ///< Opaque.

 private:
  explicit Table(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// All rows of a checkpoint that ever moved, without a job.
struct SavedTable {
  uint32_t width = 0;        ///< Lanes of a row.
  uint32_t state_lanes = 0;  ///< Of the optimiser's, beside each.
  std::string optimizer;
  uint32_t number = 0;         ///< Of the checkpoint, from 1.
  std::vector<uint64_t> keys;  ///< Ascending.
  std::vector<float> records;  ///< f32[keys][width + state_lanes]
  std::string state;           ///< As given to save().
};
/// kInvalidArgument: there is none, or one that cannot be believed.
Result<SavedTable> read_table(const std::string& checkpoint_directory);

}  // namespace sumcast

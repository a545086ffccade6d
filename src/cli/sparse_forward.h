// The path `forward` of a sparse bench: the aggregator sums hot keys' gradients and sends each sum
// to the key's server, which moves the row; workers pull hot rows from there. What aggregation
// gives without replicas at the workers (design rule 5S.2), for comparison.
//
//   worker -> aggregator   gradients of its hot rows                  RowSum with the server as
//   root aggregator -> server   one sum of each row that was touched worker -> server request:
//   task, and a bit for each of the server's hot slots server -> worker       rows[bits set] as
//   they travel (sparse/row_codec.h), after all workers' gradients
//
// A round of every worker is a request to every server; cold keys go the ordinary way at the same
// time. New rows are zeros (TableShape::init_scale 0), so servers need not know hot keys by name.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "sparse/row_codec.h"
#include "sparse/worker.h"
#include "table/row_table.h"

namespace sumcast::cli {

enum class ForwardTask : uint64_t {
  kPull = 1,  ///< Rows only.
  kStep = 2,  ///< Gradients are being summed; rows after them.
  kLeave = 3,
};

/// A group of all members; called by all of them at the same time.
Result<Group> make_forward_group(Context& context);

/// sparse::Worker's calls, with `hot` keys forwarded. Single-threaded.
class ForwardWorker {
 public:
  /// @param cold   has no hot keys, and is used by nobody else meanwhile; outlives this.
  /// @param group  of all members, from make_forward_group().
  /// @param hot    the same on all workers.
  static Result<std::unique_ptr<ForwardWorker>> create(sparse::Worker& cold, Group group,
                                                       const sparse::Options& options,
                                                       std::span<const uint64_t> hot);
  /// Tells the servers that this worker leaves.
  ~ForwardWorker();

  Result<void> pull(std::span<const uint64_t> keys);
  Result<void> push_pull(const float* gradients, std::span<const uint64_t> next);
  const float* row(size_t i) const { return rows_[i]; }
  size_t keys() const { return rows_.size(); }
  void forget_keys() { rows_.clear(); }
  uint64_t hot_pushed() const { return hot_pushed_; }

 private:
  struct Leg {                      // To one server.
    std::vector<uint32_t> touched;  // Slots of the current keys, ascending.
    std::vector<uint32_t> places;   // Of each, among the current keys.
    std::vector<float> gathered, rows;
    std::vector<std::byte> reply;
    std::vector<uint64_t> request;  // Task, bits.
  };

  ForwardWorker(sparse::Worker& cold, Group group, const sparse::Options& options)
      : cold_(cold),
        group_(std::move(group)),
        options_(options),
        row_codec_(options.row_wire, options.shape.width) {}

  Result<void> round(ForwardTask task, const float* gradients, std::span<const uint64_t> next);
  Result<std::vector<Work>> begin_sums(const float* gradients);
  Result<Work> request_rows(ForwardTask task);
  void take_up(std::span<const uint64_t> keys);

  sparse::Worker& cold_;
  Group group_;
  sparse::Options options_;
  sparse::RowCodec row_codec_;
  struct Slot {
    uint32_t server = 0, slot = 0;
  };
  std::unordered_map<uint64_t, Slot> slots_;
  std::vector<Leg> legs_;         // By server.
  std::vector<uint64_t> counts_;  // By server: hot slots.
  std::vector<uint64_t> cold_keys_;
  std::vector<uint32_t> cold_places_;
  std::vector<float> cold_gradients_;
  std::vector<const float*> rows_;
  uint64_t hot_pushed_ = 0;
};

/// The servers' part, beside sparse::Server. Single-threaded.
class ForwardServer {
 public:
  ForwardServer(Group group, const sparse::Options& options, uint32_t rank);
  /// Until all workers have left, or the group ended.
  Result<void> run();

 private:
  /// The requests of all workers; the same task, or kMismatch.
  Result<ForwardTask> receive();
  Result<void> sum();
  Result<void> reply();

  Group group_;
  sparse::Options options_;
  sparse::RowCodec row_codec_;
  uint32_t me_;                                  // Among the servers.
  table::RowTable table_;                        // Slot for slot.
  std::vector<uint64_t> counts_;                 // By server: hot slots.
  std::vector<std::vector<uint64_t>> requests_;  // By worker: task, bits.
  std::vector<std::vector<std::byte>> replies_;  // By worker.
  std::vector<float> sums_;
  std::vector<uint64_t> present_;
};

}  // namespace sumcast::cli

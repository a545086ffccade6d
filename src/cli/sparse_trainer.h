// What a worker of a sparse bench does: batches drawn ahead, gradients that are real numbers, and
// blocks of rounds along one path.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/time.h"
#include "cli/sparse_batches.h"
#include "cli/sparse_forward.h"
#include "cli/sparse_plan.h"
#include "sparse/worker.h"

namespace sumcast::cli {

class SparseTrainer {
 public:
  /// @param worker   outlives the trainer.
  /// @param forward  of make_forward_group(), if that path is among the flags'.
  static Result<std::unique_ptr<SparseTrainer>> create(sparse::Worker& worker,
                                                       const SparseFlags& flags,
                                                       const Context& context,
                                                       std::optional<Group> forward);

  /// Not timed: sets the path's hot keys, pulls the first rows, trains half a flush period.
  Result<void> prepare(SparsePath path);
  Result<SparseBlock> run(uint32_t rounds, Instant start);

 private:
  SparseTrainer(sparse::Worker& worker, const SparseFlags& flags)
      : worker_(worker), flags_(flags) {}

  void choose_hot(const dataset::KeyStream& stream, size_t payload_bytes);
  /// The track's own copy of a key.
  uint64_t copy_of(uint64_t key) const;
  std::vector<uint64_t> copies_of(const std::vector<uint64_t>& keys) const;
  /// The track's batch of a round.
  std::vector<uint64_t> batch_of(uint64_t round) const;
  Result<void> train(uint32_t rounds);
  /// Rows: sparse::Worker, or ForwardWorker.
  template <typename Rows>
  Result<void> train_with(Rows& rows, uint32_t rounds);
  template <typename Rows>
  Result<void> begin_batches(Rows& rows, uint64_t at);
  template <typename Rows>
  static uint64_t hash_of(const Rows& rows, uint32_t width);
  bool forwards() const { return track_ == static_cast<size_t>(SparsePath::kForward); }

  sparse::Worker& worker_;
  std::unique_ptr<ForwardWorker> forward_;
  SparseFlags flags_;
  SparseBatches batches_;
  std::vector<uint64_t> hot_;        // Hottest first.
  std::vector<float> gradients_;     // f32[most keys of a batch][width]
  size_t track_ = 0;                 // Path, or what auto tries: a copy of the keys.
  std::vector<uint64_t> position_;   // By track: rounds trained.
  std::vector<std::string> chosen_;  // By path: what auto chose.
};

}  // namespace sumcast::cli

// Which keys are hot, followed while a table is trained: worker 0 keeps the batches of a period as
// a sample of everybody's, and proposes the keys that the model of the links finds worth it
// (sparse/balance.h). All workers hear of it at the same round, and take it up there (design rule
// 5S.5). A new set moves all hot rows to the servers and back: one that differs in a few keys only
// is not proposed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "hotset/corpus.h"
#include "sparse/balance.h"
#include "sparse/worker.h"

namespace sumcast::embedding {

class HotFollower {
 public:
  /// @param hot_max  0: nothing is followed.
  /// @param period   rounds between decisions, 1 or more.
  HotFollower(const sparse::LinkModel& model, uint32_t hot_max, uint32_t period, bool proposes);

  /// A round of training touches these keys, distinct, on this worker.
  /// @return whether decide() is to be called behind it: the same on all workers.
  bool on_round(std::span<const uint64_t> keys);
  /// What is hot has been set otherwise.
  void set_current(std::span<const uint64_t> keys) { current_.assign(keys.begin(), keys.end()); }

  /// Called by all workers at the end of a period: the keys that are hot from now on, hottest
  /// first, the same on all; nothing where the old ones stay.
  Result<std::optional<std::vector<uint64_t>>> decide(sparse::Worker& rows);

 private:
  std::optional<std::vector<uint64_t>> propose();

  sparse::LinkModel model_;
  uint32_t hot_max_, period_;
  bool proposes_;
  uint32_t rounds_ = 0;
  hotset::Corpus batches_;         // Of this period; worker 0's.
  std::vector<uint64_t> current_;  // Hot now.
};

}  // namespace sumcast::embedding

// Which keys are hot in training: chosen from a sample at the start, then followed while it runs.
//
// Worker 0 counts the keys of its own batches, which are a fair sample of everybody's. Every
// `--track` rounds it asks its tracker for a better hot set and tells all workers in a broadcast,
// which they all wait for at the same round; so all adopt a new set between the same two rounds
// (design rule 5S.5), or none. A new set costs a move of all hot rows to the servers and back: it
// is proposed only if the rows that then stay off the servers' links, within the time that a key
// takes to become resident, are more.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cli/train_options.h"
#include "hotset/corpus.h"
#include "hotset/hot_tracker.h"
#include "sparse/options.h"
#include "sparse/worker.h"

namespace sumcast::cli {

struct HotChoice {
  std::vector<uint64_t> keys;   ///< Hottest first.
  std::vector<double> chances;  ///< Of each: that a worker's batch touches it.
};

/// The keys worth being hot for training on these links (`--hot auto`), or the hottest so many.
///
/// @param sample  a row for each part of a batch, of which a batch has options.batch.
HotChoice choose_hot(const hotset::Corpus& sample, const TrainOptions& options,
                     const sparse::Options& job);

/// Keys of a batch of so many parts, as the sample's first ones have them.
double distinct_keys(const hotset::Corpus& sample, uint32_t batch);

/// One thread at a time.
class HotWatch {
 public:
  /// @param first  what is hot from the beginning; without keys nothing is watched.
  HotWatch(const HotChoice& first, const TrainOptions& options, const sparse::Options& job,
           uint32_t rank);

  /// A round of training touched these keys, distinct, on this worker.
  void on_round(std::span<const uint64_t> keys);

  struct NewSet {
    std::vector<uint64_t> keys;  ///< Hottest first.
    uint64_t fresh = 0;          ///< How many of them were cold.
  };
  /// Called by all workers after every round: the set to take up now, the same on all; nothing
  /// where the old one stays.
  Result<std::optional<NewSet>> decide(sparse::Worker& rows);

 private:
  NewSet propose();

  uint32_t period_;  // Rounds between decisions; 0: never.
  uint64_t rounds_ = 0;
  double saved_bytes_ = 0;  // At the servers, by a key off a worker's every batch, in a half-life.
  double moved_bytes_ = 0;  // By a new set.
  std::vector<uint64_t> residents_;
  std::optional<hotset::HotTracker> tracker_;  // Worker 0's.
};

}  // namespace sumcast::cli

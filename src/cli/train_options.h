// What `sumcast train` was asked for. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "sparse/options.h"

namespace sumcast::cli {

struct TrainOptions {
  std::string data = "debian-packages";  ///< A file, debian-packages, ctr or ctr-drift.
  uint64_t rows = 100'000;               ///< Of ctr and ctr-drift.
  std::string format = "auto";           ///< As dataset::open_samples has it.
  std::string test;                      ///< A file of its own; empty: a share of `data`.
  double test_share = 0.1;               ///< Of the groups of `data`.
  std::string model = "softmax";
  uint32_t factors = 8;          ///< fm, deepfm.
  std::string hidden = "64,32";  ///< deepfm: layers.
  float dense_rate = 0.02f;      ///< deepfm: of the layers.
  uint32_t vector_width = 32;    ///< word2vec, like all below.
  uint32_t window = 5;
  uint32_t negatives = 5;
  uint64_t count_min = 5;  ///< Rarer words are left out.
  double thin = 1e-3;      ///< Of frequent words.
  std::string vectors;     ///< A file to write.
  std::string nearest;     ///< A word.
  std::string optimizer = "adagrad";
  float rate = 0;  ///< 0: what suits the model with adagrad (step_rate()).
  uint32_t epochs = 5;
  uint32_t batch = 64;           ///< Samples (word2vec: texts) of each worker.
  std::string order = "random";  ///< Of samples in an epoch: random, or file: as they were read.
  uint32_t workers = 4;
  uint32_t servers = 1;
  std::string hot = "auto";  ///< auto, or a number of keys.
  double sample = 0.08;      ///< Of the training data: what hot keys are chosen from.
  uint32_t track = 50;       ///< Rounds between looks at the hot set; 0: it stays.
  std::string wire = "fp32", row_wire = "fp32";
  uint32_t staleness = 0;  ///< Batches that workers ask for ahead (sparse::Options::staleness).
  bool asynchronous = false;
  uint32_t admit_after = 0;       ///< Updates of a key before it gets a row.
  uint32_t evict_after = 0;       ///< Steps without update after which a row goes; 0: never.
  uint64_t max_rows = 0;          ///< Of all servers together; 0: no limit.
  std::string checkpoint;         ///< A directory; empty: none are written.
  uint64_t checkpoint_every = 0;  ///< Steps; 0: after each epoch only.
  bool resume = false;
  bool require_aggregator = false;  ///< Its loss is an error.
  uint64_t seed = 1;
  bool json = false;

  /// kInvalidArgument: one line about the first option that cannot be.
  Result<void> validate() const;
  /// `hot` as a number; unset: auto. Valid options only.
  std::optional<uint32_t> hot_keys() const;
  /// `hidden` as numbers. Valid options only.
  std::vector<int> hidden_layers() const;
  float step_rate() const;
  bool is_in_order() const { return order == "file"; }
  /// @param width, init_scale  the model's.
  Result<sparse::Options> job(uint32_t width, float init_scale) const;
};

}  // namespace sumcast::cli

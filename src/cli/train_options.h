// What `sumcast train` was asked for. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "sparse/options.h"

namespace sumcast::cli {

struct TrainOptions {
  std::string data = "debian-packages";  ///< A file, or debian-packages.
  std::string format = "auto";           ///< As dataset::open_samples has it.
  std::string test;                      ///< A file of its own; empty: a share of `data`.
  double test_share = 0.1;               ///< Of the groups of `data`.
  std::string model = "softmax";
  uint32_t factors = 8;  ///< fm.
  std::string optimizer = "adagrad";
  float rate = 0.3f;
  uint32_t epochs = 5;
  uint32_t batch = 64;  ///< Samples of each worker.
  uint32_t workers = 4;
  uint32_t servers = 1;
  std::string hot = "auto";  ///< auto, or a number of keys.
  double sample = 0.08;      ///< Of the training data: what hot keys are chosen from.
  std::string wire = "fp32";
  uint64_t seed = 1;
  bool json = false;

  /// kInvalidArgument: one line about the first option that cannot be.
  Result<void> validate() const;
  /// `hot` as a number; unset: auto. Valid options only.
  std::optional<uint32_t> hot_keys() const;
  /// @param width, init_scale  the model's.
  Result<sparse::Options> job(uint32_t width, float init_scale) const;
};

}  // namespace sumcast::cli

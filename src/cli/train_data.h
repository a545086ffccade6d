// The samples that `sumcast train` trains and tests on, read once and shared by all workers of the
// process.
#pragma once

#include <string>
#include <vector>

#include "cli/train_options.h"
#include "dataset/sample.h"

namespace sumcast::cli {

struct TrainData {
  std::vector<dataset::Sample> train, test;
  std::vector<std::string> labels;  ///< Names; empty where labels are numbers.
  uint32_t classes = 0;             ///< Labels 0 .. classes - 1 occur, if they are whole numbers.
};

/// Reads the whole data. Divided by group (source package, line), the same on all machines; keys of
/// test samples are not looked at. kInvalidArgument: a malformed line (file, line, what), no
/// samples, or labels that the model cannot have.
Result<TrainData> load_train_data(const TrainOptions& options);

/// Keys worth being hot for training on these links, hottest first: from a sample of the rows.
///
/// @param width  f32 lanes of a row.
std::vector<uint64_t> choose_hot_keys(const TrainData& data, const TrainOptions& options,
                                      uint32_t width);

}  // namespace sumcast::cli

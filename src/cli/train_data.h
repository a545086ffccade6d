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
  uint32_t classes = 0;             ///< softmax: labels 0 .. classes - 1 occur.
  uint32_t fields = 0;              ///< deepfm: features' fields are below it.
};

/// Is a group (of lines, of one source package) kept for testing? The same on all machines.
bool is_test(uint64_t group, const TrainOptions& options);

/// Reads the whole data, divided by group; keys of test samples are not looked at. Fields come in
/// `fields` ranges, at most as many as deepfm takes. kInvalidArgument: a malformed line (file,
/// line, what), no samples, or labels that the model cannot have.
Result<TrainData> load_train_data(const TrainOptions& options);

}  // namespace sumcast::cli

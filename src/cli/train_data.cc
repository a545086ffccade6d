#include "cli/train_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/prng.h"
#include "dataset/click_log.h"
#include "trainer/deep_fm.h"

namespace sumcast::cli {
namespace {

constexpr uint32_t kDriftingLives = 4;  // Of a key of ctr-drift.
constexpr uint32_t kClassesMax = 300;   // A row of classes has to fit a datagram.

/// A file, what apt knows, or a generated click log.
Result<std::unique_ptr<dataset::SampleReader>> open(const std::string& source,
                                                    const TrainOptions& options) {
  if (source != "ctr" && source != "ctr-drift") {
    return dataset::open_samples(source, options.format);
  }
  dataset::ClickLogOptions log;
  log.rows = options.rows;
  log.drift = source == "ctr" ? 0 : kDriftingLives;
  log.seed = options.seed;
  auto reader = dataset::ClickLog::create(log);
  if (!reader) return fail(reader.error());
  return std::move(*reader);
}

Result<void> read_all(const std::string& source, const TrainOptions& options,
                      std::vector<dataset::Sample>& out, std::vector<std::string>& labels) {
  auto reader = open(source, options);
  if (!reader) return fail(reader.error());
  if (!(*reader)->has_labels()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} is text, which says nothing to predict: --model word2vec trains on "
                            "it, {} needs labels",
                            source, options.model));
  }
  for (;;) {
    dataset::Sample sample;
    auto more = (*reader)->next(sample);
    if (!more) return fail(more.error());
    if (!*more) break;
    out.push_back(std::move(sample));
  }
  labels = (*reader)->label_names();
  if (out.empty()) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("{} has no samples", source));
  }
  return {};
}

/// Class numbers for softmax: whole, from 0.
Result<uint32_t> count_classes(const TrainData& data) {
  float most = 0;
  for (const auto* samples : {&data.train, &data.test}) {
    for (const dataset::Sample& sample : *samples) {
      if (sample.label < 0 || sample.label != std::floor(sample.label) ||
          sample.label >= kClassesMax) {
        return fail(ErrorCode::kInvalidArgument,
                    fmt::format("softmax: label {} is no class; whole numbers from 0 to {} are",
                                sample.label, kClassesMax - 1));
      }
      most = std::max(most, sample.label);
    }
  }
  return static_cast<uint32_t>(most) + 1;
}

/// Two numbers are two classes, whatever they are called (0 and 1, -1 and 1, 1 and 2): the larger
/// one is what lr, fm and deepfm give the probability of. One number alone is left as it is.
Result<void> name_two_classes(TrainData& data, const TrainOptions& options) {
  std::set<float> labels;
  for (auto* samples : {&data.train, &data.test}) {
    for (const dataset::Sample& sample : *samples) {
      labels.insert(sample.label);
      if (labels.size() <= 2) continue;
      return fail(
          ErrorCode::kInvalidArgument,
          fmt::format("{} has three labels or more ({}); {} tells two apart: --model softmax takes "
                      "classes",
                      options.data, fmt::join(labels, ", "), options.model));
    }
  }
  if (labels.size() != 2) return {};
  for (auto* samples : {&data.train, &data.test}) {
    for (dataset::Sample& sample : *samples) sample.label = sample.label == *labels.begin() ? 0 : 1;
  }
  return {};
}

/// Columns, or ranges of them (of indices) where there are more than deepfm takes.
uint32_t number_fields(TrainData& data) {
  uint64_t most = 0;
  for (const auto* samples : {&data.train, &data.test}) {
    for (const dataset::Sample& sample : *samples) {
      for (const dataset::Feature& feature : sample.features) {
        most = std::max<uint64_t>(most, feature.field);
      }
    }
  }
  if (most < trainer::kFieldsMax) return static_cast<uint32_t>(most) + 1;
  for (auto* samples : {&data.train, &data.test}) {
    for (dataset::Sample& sample : *samples) {
      for (dataset::Feature& feature : sample.features) {
        feature.field =
            static_cast<uint32_t>(feature.field * uint64_t{trainer::kFieldsMax} / (most + 1));
      }
    }
  }
  return trainer::kFieldsMax;
}

}  // namespace

bool is_test(uint64_t group, const TrainOptions& options) {
  return Prng(group ^ 0x5B117u).unit() < options.test_share;
}

Result<TrainData> load_train_data(const TrainOptions& options) {
  TrainData data;
  std::vector<dataset::Sample> all;
  if (auto read = read_all(options.data, options, all, data.labels); !read) {
    return fail(read.error());
  }
  if (options.test.empty()) {
    for (dataset::Sample& sample : all) {
      (is_test(sample.group, options) ? data.test : data.train).push_back(std::move(sample));
    }
  } else {
    std::vector<std::string> labels;
    data.train = std::move(all);
    if (auto read = read_all(options.test, options, data.test, labels); !read) {
      return fail(read.error());
    }
    if (labels != data.labels) {
      return fail(
          ErrorCode::kInvalidArgument,
          fmt::format("{} and {} number their labels differently", options.data, options.test));
    }
  }
  if (data.train.empty() || data.test.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: {} samples to train and {} to test; both are needed", options.data,
                            data.train.size(), data.test.size()));
  }
  if (options.model == "deepfm") data.fields = number_fields(data);
  if (options.model != "softmax") {
    if (auto named = name_two_classes(data, options); !named) return fail(named.error());
    return data;
  }
  auto classes = count_classes(data);
  if (!classes) return fail(classes.error());
  data.classes = *classes;
  return data;
}

}  // namespace sumcast::cli

#include "cli/train_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/prng.h"
#include "hotset/heat.h"
#include "sparse/balance.h"
#include "trainer/sparse_batch.h"

namespace sumcast::cli {
namespace {

/// Of a datagram in an Ethernet packet of 1,500 bytes.
constexpr size_t kDatagramPayloadBytes = 1424;
constexpr uint32_t kClassesMax = 300;  // A row of classes has to fit a datagram.

Result<void> read_all(const std::string& source, const std::string& format,
                      std::vector<dataset::Sample>& out, std::vector<std::string>& labels) {
  auto reader = dataset::open_samples(source, format);
  if (!reader) return fail(reader.error());
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

bool is_test(const dataset::Sample& sample, const TrainOptions& options) {
  return Prng(sample.group ^ 0x5B117u).unit() < options.test_share;
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

}  // namespace

Result<TrainData> load_train_data(const TrainOptions& options) {
  TrainData data;
  std::vector<dataset::Sample> all;
  if (auto read = read_all(options.data, options.format, all, data.labels); !read) {
    return fail(read.error());
  }
  if (options.test.empty()) {
    for (dataset::Sample& sample : all) {
      (is_test(sample, options) ? data.test : data.train).push_back(std::move(sample));
    }
  } else {
    std::vector<std::string> labels;
    data.train = std::move(all);
    if (auto read = read_all(options.test, options.format, data.test, labels); !read) {
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
  if (options.model != "softmax") return data;
  auto classes = count_classes(data);
  if (!classes) return fail(classes.error());
  data.classes = *classes;
  return data;
}

std::vector<uint64_t> choose_hot_keys(const TrainData& data, const TrainOptions& options,
                                      uint32_t width) {
  const auto asked = options.hot_keys();
  if (asked == 0u) return {};
  Prng random(options.seed);
  hotset::Corpus corpus;
  std::vector<uint64_t> keys;
  for (const dataset::Sample& sample : data.train) {
    if (!random.chance(options.sample)) continue;
    keys.assign(1, trainer::kBiasKey);
    for (const dataset::Feature& feature : sample.features) keys.push_back(feature.key);
    corpus.add_row(keys);
  }
  if (corpus.rows() == 0) return {};
  const sparse::LinkModel model = sparse::link_model(options.workers, options.servers, width,
                                                     WireFormat::kNative, kDatagramPayloadBytes);
  if (!asked) return sparse::choose_hot_keys(model, corpus, options.batch, SIZE_MAX);
  std::vector<uint32_t> rows(corpus.rows());
  for (uint32_t row = 0; row < rows.size(); ++row) rows[row] = row;
  const auto order = hotset::by_heat(corpus, hotset::count_touches(corpus, rows, 1));
  std::vector<uint64_t> hot;
  for (size_t i = 0; i < std::min<size_t>(*asked, order.size()); ++i) {
    hot.push_back(corpus.key(order[i]));
  }
  return hot;
}

}  // namespace sumcast::cli

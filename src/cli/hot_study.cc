#include "cli/hot_study.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "cli/datagram_payload.h"
#include "cli/train_task.h"
#include "dataset/key_stream.h"
#include "dataset/sample.h"
#include "numeric/rows.h"

namespace sumcast::cli {
namespace {

using hotset::KeyIndex;

/// Enough draws that the hottest keys found are the hottest, for a vocabulary of a million.
constexpr uint64_t kGeneratedRows = 200'000;
constexpr size_t kReportEvery = 4096;  // Rows.
constexpr uint64_t kCapacityMin = 16;
constexpr std::array<double, 4> kSampleShares = {0.01, 0.04, 0.08, 0.16};
constexpr std::array<double, 3> kTopShares = {0.001, 0.01, 0.1};
/// Libra's claim is about the first 30,000 keys, where there are twenty times as many at least.
constexpr uint64_t kClaimedKeys = 30'000;
constexpr uint64_t kClaimedVocabularyMin = 600'000;
constexpr uint64_t kCurvePoints = 50;
constexpr uint64_t kSteps = 7;  // Of the study, for the progress bar.

Result<HotData> generate(const HotOptions& options, const HotProgress& progress) {
  dataset::KeyStreamOptions generator;
  generator.vocabulary = options.vocabulary;
  const auto stream = dataset::make_key_stream(options.source, generator);
  if (!stream) return fail(stream.error());
  const uint64_t rows = options.rows > 0 ? options.rows : kGeneratedRows;
  Prng prng(options.seed);
  HotData data;
  std::vector<uint64_t> keys;
  for (uint64_t row = 0; row < rows; ++row) {
    (*stream)->next_batch(1, prng, keys);
    data.corpus.add_row(keys);
    if (row % kReportEvery == 0) progress("generating", row, rows);
  }
  data.vocabulary = (*stream)->vocabulary();
  return data;
}

Result<HotData> read(const HotOptions& options, const HotProgress& progress) {
  auto reader = dataset::open_samples(options.source, options.format);
  if (!reader) return fail(reader.error());
  HotData data;
  dataset::Sample sample;
  std::vector<uint64_t> keys;
  while (options.rows == 0 || data.corpus.rows() < options.rows) {
    const auto more = (*reader)->next(sample);
    if (!more) return fail(more.error());
    if (!*more) break;
    keys.clear();
    for (const auto& feature : sample.features) keys.push_back(feature.key);
    data.corpus.add_row(keys);
    if (data.corpus.rows() % kReportEvery == 0) {
      progress("reading", data.corpus.rows(), options.rows);
    }
  }
  data.vocabulary = data.corpus.distinct_keys();
  return data;
}

/// Everything that the model trains on is its sample.
Result<HotData> read_for_training(const HotOptions& options) {
  TrainOptions training;
  training.data = options.source;
  training.format = options.format;
  training.model = options.model;
  training.seed = options.seed;
  training.sample = 1;
  if (options.rows != 0) training.rows = options.rows;
  const auto subject = make_train_subject(training);
  if (!subject) return fail(subject.error());
  HotData data;
  data.corpus = (*subject)->sample();
  data.vocabulary = data.corpus.distinct_keys();
  data.row_width = (*subject)->width();
  return data;
}

uint64_t keys_of_share(double share, uint64_t vocabulary) {
  return std::max<uint64_t>(1, static_cast<uint64_t>(share * static_cast<double>(vocabulary)));
}

struct Ranking {
  hotset::Heat heat;
  std::vector<KeyIndex> order;
};

Ranking rank(const HotData& data, std::span<const uint32_t> rows, uint64_t batch) {
  Ranking ranking;
  ranking.heat = hotset::count_touches(data.corpus, rows, batch);
  ranking.order = hotset::by_heat(data.corpus, ranking.heat);
  return ranking;
}

void describe_skew(const Ranking& by_row, const Ranking& by_batch, HotStudy& study) {
  const auto top = [&](uint64_t keys) -> HotStudy::TopShare {
    return {keys, static_cast<double>(keys) / static_cast<double>(study.vocabulary),
            hotset::share_of_first(by_row.heat, by_row.order, keys),
            hotset::share_of_first(by_batch.heat, by_batch.order, keys)};
  };
  uint64_t last = 0;  // Few keys may have a tenth of a per cent and one per cent in common.
  for (const double share : kTopShares) {
    const uint64_t keys = keys_of_share(share, study.vocabulary);
    if (keys != last) study.top_shares.push_back(top(keys));
    last = keys;
  }
  if (study.vocabulary >= kClaimedVocabularyMin) study.top_shares.push_back(top(kClaimedKeys));
  for (uint64_t point = 0; point <= kCurvePoints; ++point) {
    // Denser where the curve is steep.
    study.curve.push_back(
        top(study.vocabulary * point * point / (10 * kCurvePoints * kCurvePoints)));
  }
  study.keys_for_half_of_rows = hotset::keys_for_half(by_row.heat, by_row.order);
  study.keys_for_half_of_batches = hotset::keys_for_half(by_batch.heat, by_batch.order);
  study.keys_per_batch =
      static_cast<double>(by_batch.heat.updates()) / static_cast<double>(by_batch.heat.batches);
}

/// Rows are in random order, so a sample is their beginning, and larger samples hold smaller.
std::span<const uint32_t> sample_of(std::span<const uint32_t> rows, double share) {
  const auto wanted = static_cast<size_t>(share * static_cast<double>(rows.size()) + 0.5);
  return rows.first(std::clamp<size_t>(wanted, 1, rows.size()));
}

/// By the links if servers were named, else by fan-in.
std::vector<KeyIndex> choose(const HotOptions& options, const Ranking& sampled,
                             const hotset::Chances& chances, HotStudy& study) {
  if (options.servers == 0) {
    return hotset::choose_hot(chances, sampled.order, study.capacity, options.contributors(),
                              options.fan_in_min);
  }
  // The model that decides in training how many keys are hot, for f32 on the wire.
  sparse::Options job;
  job.workers = options.workers;
  job.servers = options.servers;
  job.shape.width = options.row_width;
  study.links = sparse::balance(sparse::link_model(job, kDatagramPayloadBytes), chances,
                                sampled.order, study.capacity);
  return {sampled.order.begin(),
          sampled.order.begin() + static_cast<std::ptrdiff_t>(study.links.hot)};
}

void place(const HotOptions& options, const HotData& data, const hotset::Chances& chances,
           std::span<const KeyIndex> hot, HotStudy& study) {
  const auto placement =
      hotset::place_two_choices(hot.size(), study.lanes, options.doubled_share());
  study.placement_depth = placement.depth();
  for (size_t rank = 0; rank < hot.size(); ++rank) {
    const double chance = chances.of[hot[rank]];
    study.hot.push_back({data.corpus.key(hot[rank]), chance,
                         hotset::expected_fan_in(chance, options.contributors()),
                         placement.keys[rank]});
  }
}

}  // namespace

double HotStudy::passes_against_naive() const {
  if (packing.rows.empty()) return 0;
  return packing.rows.back().passes_per_batch / packing.rows.front().passes_per_batch;
}

Result<HotData> load_hot_data(const HotOptions& options, const HotProgress& progress) {
  auto data = !options.model.empty()   ? read_for_training(options)
              : options.is_generator() ? generate(options, progress)
                                       : read(options, progress);
  if (data && data->corpus.updates() == 0) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("{}: no key in it", options.source));
  }
  return data;
}

HotStudy study_hot_keys(const HotOptions& options, const HotData& data,
                        const HotProgress& progress) {
  uint64_t step = 0;
  const auto advance = [&] { progress("counting", ++step, kSteps); };
  const auto& corpus = data.corpus;
  HotStudy study;
  study.rows = corpus.rows();
  study.vocabulary = data.vocabulary;
  study.seen_keys = corpus.distinct_keys();
  study.keys_per_row = static_cast<double>(corpus.updates()) / static_cast<double>(corpus.rows());
  study.lanes = hotset::row_lanes(options.arrays, options.row_width);
  study.capacity =
      options.capacity > 0 ? options.capacity : std::max(kCapacityMin, study.vocabulary / 10);

  Prng prng(options.seed);
  const auto rows = hotset::draw_rows(corpus, 1.0, prng);
  const Ranking full = rank(data, rows, options.batch);
  describe_skew(rank(data, rows, 1), full, study);
  advance();
  for (const double share : kSampleShares) {
    auto chosen = rank(data, sample_of(rows, share), 1).order;
    chosen.resize(std::min<size_t>(chosen.size(), study.capacity));
    study.coverage.push_back({share, hotset::judge_sample(full.heat, full.order, chosen)});
    advance();
  }

  const auto sample = sample_of(rows, options.sample_share());
  const Ranking sampled = rank(data, sample, 1);
  const auto chances = hotset::estimate_chances(sampled.heat, options.batch);
  const uint32_t contributors = options.contributors();
  const auto hot = choose(options, sampled, chances, study);
  study.hot_quality = hotset::judge_sample(full.heat, full.order, hot);
  study.predicted = hotset::predict_traffic(chances, hot, contributors);
  study.measured = hotset::measure_traffic(corpus, rows, options.batch, hot, contributors);
  advance();
  if (!hot.empty()) {
    place(options, data, chances, hot, study);
    const auto unseen = std::span(rows).subspan(sample.size());
    study.packing = hotset::study_packing(corpus, hot, unseen.empty() ? sample : unseen,
                                          options.batch, study.lanes, options.doubled_share());
  }
  progress("counting", kSteps, kSteps);
  return study;
}

}  // namespace sumcast::cli

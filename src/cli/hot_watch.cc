#include "cli/hot_watch.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "cli/datagram_payload.h"
#include "hotset/heat.h"
#include "sparse/balance.h"

namespace sumcast::cli {
namespace {

constexpr uint32_t kPeriodsOfHalfLife = 2;
constexpr double kBatchesPerHalfLife = 1.44;  // That count: the sum of all weights, 1 / ln 2.
constexpr double kDoubt = 2.0;                // Standard deviations of a count.
constexpr size_t kCountersPerKey = 4;
/// A key leaves when it is this much colder than what was worth a place at the start.
constexpr double kWorthOfFirst = 0.5;

hotset::TrackerOptions tracker_options(const HotChoice& first, uint32_t period) {
  hotset::TrackerOptions options;
  options.capacity = first.keys.size();
  options.counters = kCountersPerKey * first.keys.size() + 1;
  options.half_life_rounds = kPeriodsOfHalfLife * period;
  options.chance_min = kWorthOfFirst * *std::ranges::min_element(first.chances);
  return options;
}

}  // namespace

HotChoice choose_hot(const hotset::Corpus& sample, const TrainOptions& options,
                     const sparse::Options& job) {
  HotChoice choice;
  const auto asked = options.hot_keys();
  if (asked == 0u || sample.rows() == 0) return choice;
  std::vector<uint32_t> rows(sample.rows());
  std::iota(rows.begin(), rows.end(), 0u);
  const hotset::Heat heat = hotset::count_touches(sample, rows, 1);
  const auto order = hotset::by_heat(sample, heat);
  if (asked) {
    for (size_t i = 0; i < std::min<size_t>(*asked, order.size()); ++i) {
      choice.keys.push_back(sample.key(order[i]));
    }
  } else {
    const auto model = sparse::link_model(job, kDatagramPayloadBytes);
    choice.keys = sparse::choose_hot_keys(model, sample, options.batch, SIZE_MAX);
  }
  // Either way they are the first of the order.
  const hotset::Chances chances = hotset::estimate_chances(heat, options.batch);
  for (size_t i = 0; i < choice.keys.size(); ++i) choice.chances.push_back(chances.of[order[i]]);
  return choice;
}

double distinct_keys(const hotset::Corpus& sample, uint32_t batch) {
  std::vector<hotset::KeyIndex> keys;
  for (size_t row = 0; row < std::min<size_t>(batch, sample.rows()); ++row) {
    keys.insert(keys.end(), sample.row(row).begin(), sample.row(row).end());
  }
  std::ranges::sort(keys);
  const auto rest = std::ranges::unique(keys);
  return static_cast<double>(keys.size() - rest.size());
}

HotWatch::HotWatch(const HotChoice& first, const TrainOptions& options, const sparse::Options& job,
                   uint32_t rank)
    : period_(first.keys.empty() ? 0 : options.track), residents_(first.keys) {
  if (period_ == 0) return;
  const sparse::LinkModel model = sparse::link_model(job, kDatagramPayloadBytes);
  saved_bytes_ = kPeriodsOfHalfLife * period_ * job.workers *
                 (model.gradient_bytes + model.row_bytes + model.key_bytes);
  // To the servers and back.
  moved_bytes_ = 2.0 * static_cast<double>(first.keys.size() * sizeof(float)) *
                 static_cast<double>(job.shape.record_lanes());
  if (rank != 0) return;
  tracker_.emplace(tracker_options(first, period_));
  tracker_->seed(first.keys, first.chances);
}

void HotWatch::on_round(std::span<const uint64_t> keys) {
  ++rounds_;
  if (!tracker_) return;
  tracker_->on_batch(keys);
  tracker_->end_round();
}

/// Empty if the set stays. The tracker takes up what is proposed.
HotWatch::NewSet HotWatch::propose() {
  NewSet set;
  hotset::HotTracker trial = *tracker_;
  const hotset::Swap swap = trial.swap();
  // Keys are picked for what they seem to be: of those that come the least is believed, of those
  // that go the most, or chance alone would be reason enough.
  const double batches = kBatchesPerHalfLife * kPeriodsOfHalfLife * period_;
  const auto doubt = [&](uint64_t key) { return kDoubt * std::sqrt(trial.chance(key) / batches); };
  double gained = 0;
  for (const uint64_t key : swap.promoted) gained += trial.chance(key) - doubt(key);
  for (const uint64_t key : swap.demoted) gained -= trial.chance(key) + doubt(key);
  if (swap.promoted.empty() || gained * saved_bytes_ <= moved_bytes_) return set;
  std::vector<std::pair<double, uint64_t>> hottest_first;
  for (const uint64_t key : residents_) {
    if (trial.is_resident(key)) hottest_first.emplace_back(-trial.chance(key), key);
  }
  for (const uint64_t key : swap.promoted) hottest_first.emplace_back(-trial.chance(key), key);
  std::ranges::sort(hottest_first);
  for (const auto& [chance, key] : hottest_first) set.keys.push_back(key);
  set.fresh = swap.promoted.size();
  tracker_ = std::move(trial);
  return set;
}

Result<std::optional<HotWatch::NewSet>> HotWatch::decide(sparse::Worker& rows) {
  if (period_ == 0 || rounds_ % period_ != 0) return std::nullopt;
  NewSet set;
  if (tracker_) set = propose();
  std::array<uint64_t, 2> sizes = {set.keys.size(), set.fresh};
  auto told = rows.broadcast(sizes.data(), sizes.size(), ElementType::kI64);
  if (!told) return fail(told.error());
  if (sizes[0] == 0) return std::nullopt;
  set.keys.resize(sizes[0]);
  set.fresh = sizes[1];
  told = rows.broadcast(set.keys.data(), set.keys.size(), ElementType::kI64);
  if (!told) return fail(told.error());
  residents_ = set.keys;
  return set;
}

}  // namespace sumcast::cli

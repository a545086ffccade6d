#include "hotset/fan_in.h"

#include <algorithm>
#include <cmath>

#include "base/assert.h"

namespace sumcast::hotset {
namespace {

/// 1 - (1 - p)^W without the loss of digits for rare keys.
double chance_of_any(double chance, double contributors) {
  if (chance >= 1) return 1;
  return -std::expm1(contributors * std::log1p(-chance));
}

}  // namespace

double expected_fan_in(double chance, double contributors) {
  SUMCAST_ASSERT(chance > 0 && chance <= 1);
  SUMCAST_ASSERT(contributors >= 1);
  return contributors * chance / chance_of_any(chance, contributors);
}

double chance_for_fan_in(double fan_in, double contributors) {
  if (fan_in <= 1) return 0;
  if (fan_in > contributors) return 2;
  double low = 0, high = 1;  // Fan-in rises with the chance.
  for (int step = 0; step < 60; ++step) {
    const double middle = (low + high) / 2;
    (expected_fan_in(middle, contributors) < fan_in ? low : high) = middle;
  }
  return high;
}

std::vector<KeyIndex> choose_hot(const Chances& chances, std::span<const KeyIndex> order,
                                 size_t capacity, double contributors, double fan_in_min) {
  // The bound of the bisection may lie a rounding above the chance that is exactly at it.
  const double chance_min = chance_for_fan_in(fan_in_min, contributors) * (1 - 1e-9);
  std::vector<KeyIndex> chosen;
  for (const KeyIndex key : order) {
    if (chosen.size() == capacity) break;
    // A key whose chance is estimated as none has no fan-in at all.
    if (chances.of[key] > 0 && chances.of[key] >= chance_min) chosen.push_back(key);
  }
  return chosen;
}

Traffic predict_traffic(const Chances& chances, std::span<const KeyIndex> hot,
                        double contributors) {
  Traffic traffic;
  traffic.contributors = contributors;
  traffic.sent = contributors * chances.keys_per_batch;
  for (const KeyIndex key : hot) {
    traffic.hot_sent += contributors * chances.of[key];
    traffic.hot_sums += chance_of_any(chances.of[key], contributors);
  }
  return traffic;
}

Traffic measure_traffic(const Corpus& corpus, std::span<const uint32_t> rows, size_t batch,
                        std::span<const KeyIndex> hot, size_t contributors) {
  SUMCAST_ASSERT(batch >= 1 && contributors >= 1);
  Traffic traffic;
  traffic.contributors = static_cast<double>(contributors);
  const size_t round_rows = batch * contributors;
  const size_t rounds = rows.size() / round_rows;
  if (rounds == 0) return traffic;
  std::vector<bool> is_hot(corpus.distinct_keys(), false);
  for (const KeyIndex key : hot) is_hot[key] = true;
  // From 1, so that zero means never.
  std::vector<uint64_t> last_batch(corpus.distinct_keys()), last_round(corpus.distinct_keys());
  uint64_t sent = 0, hot_sent = 0, hot_sums = 0;
  for (size_t i = 0; i < rounds * round_rows; ++i) {
    for (const KeyIndex key : corpus.row(rows[i])) {
      if (last_batch[key] == i / batch + 1) continue;
      last_batch[key] = i / batch + 1;
      ++sent;
      if (!is_hot[key]) continue;
      ++hot_sent;
      if (last_round[key] == i / round_rows + 1) continue;
      last_round[key] = i / round_rows + 1;
      ++hot_sums;
    }
  }
  const auto per_round = [&](uint64_t count) {
    return static_cast<double>(count) / static_cast<double>(rounds);
  };
  traffic.sent = per_round(sent);
  traffic.hot_sent = per_round(hot_sent);
  traffic.hot_sums = per_round(hot_sums);
  return traffic;
}

}  // namespace sumcast::hotset

#include "hotset/chances.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/assert.h"

namespace sumcast::hotset {
namespace {

constexpr size_t kSmallCounts = 5;   // Above, a count is nearly its own expectation.
constexpr double kKeysForGood = 10;  // With a count, for its ratio to mean something.

/// What a key that was seen r times has coming, for r of 0..kSmallCounts.
std::array<double, kSmallCounts + 1> adjusted_counts(const Heat& by_row) {
  std::array<double, kSmallCounts + 2> keys_with{};
  for (const uint32_t count : by_row.touches) {
    if (count <= kSmallCounts + 1) keys_with[count] += 1;
  }
  std::array<double, kSmallCounts + 1> adjusted{};
  for (size_t r = 1; r <= kSmallCounts; ++r) {
    const auto count = static_cast<double>(r);
    adjusted[r] = keys_with[r] >= kKeysForGood
                      ? std::min(count, (count + 1) * keys_with[r + 1] / keys_with[r])
                      : count - std::sqrt(count);
  }
  return adjusted;
}

}  // namespace

Chances estimate_chances(const Heat& by_row, size_t batch) {
  SUMCAST_ASSERT(by_row.batches >= 1 && batch >= 1);
  const auto adjusted = adjusted_counts(by_row);
  const auto rows = static_cast<double>(by_row.batches);
  const auto batch_rows = static_cast<double>(batch);
  Chances chances;
  chances.of.reserve(by_row.touches.size());
  double seen_once = 0;
  for (const uint32_t count : by_row.touches) {
    const double expected = count <= kSmallCounts ? adjusted[count] : count;
    const double in_row = std::min(1.0, expected / rows);
    const double chance = in_row >= 1 ? 1.0 : -std::expm1(batch_rows * std::log1p(-in_row));
    chances.of.push_back(chance);
    chances.keys_per_batch += chance;
    seen_once += count == 1 ? 1 : 0;
  }
  // Keys that the sample lacks are so rare that a batch hardly holds one twice.
  chances.keys_per_batch += batch_rows * seen_once / rows;
  return chances;
}

}  // namespace sumcast::hotset

#include "dataset/click_log.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "dataset/key_hash.h"

namespace sumcast::dataset {
namespace {

constexpr uint64_t kKeysOfACategoryMin = 100;
constexpr double kBias = -1.6;
constexpr double kWeight = 0.5, kFactor = 0.9, kBump = 1.2;
constexpr double kCountMax = 8;  // Of log(1 + count): counts up to 3,000.

/// In [-1, 1), of a key; another one for each `salt`.
double hidden(uint64_t key, uint64_t salt) {
  return static_cast<double>(mix64(key ^ mix64(salt)) >> 11) * 0x1.0p-52 - 1.0;
}

}  // namespace

Result<std::unique_ptr<ClickLog>> ClickLog::create(const ClickLogOptions& options) {
  if (options.rows == 0 || options.vocabulary < kKeysOfACategoryMin * kCategories) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("a click log of {} rows and {} keys: at least 1 row and {} keys are "
                            "needed",
                            options.rows, options.vocabulary, kKeysOfACategoryMin * kCategories));
  }
  return std::unique_ptr<ClickLog>(new ClickLog(options));
}

Result<bool> ClickLog::next(Sample& sample) {
  if (row_ == options_.rows) return false;
  sample.features.clear();
  double z = kBias;
  for (uint32_t column = 1; column <= kCounts; ++column) {
    const double size = kCountMax * prng_.unit();
    sample.features.push_back({field_key(column, 0), static_cast<float>(size), column});
    if (column == 1) z += kBump * (std::abs(size - kCountMax / 2) < kCountMax / 4 ? 1 : -1);
  }
  const uint64_t size = options_.vocabulary / kCategories;
  const double now = static_cast<double>(row_) / static_cast<double>(options_.rows);
  std::array<uint64_t, kCategories> keys{};
  for (uint32_t category = 0; category < kCategories; ++category) {
    const uint32_t column = kCounts + 1 + category;
    const uint64_t rank = law_.draw_rank(prng_, size);
    const double born = 0.5 + 0.5 * hidden(rank, column);
    const auto life = static_cast<uint64_t>(now * options_.drift + born);
    keys[category] = field_key(column, life * size + rank);
    z += kWeight * hidden(keys[category], 1);
    sample.features.push_back({keys[category], 1.0f, column});
  }
  for (size_t pair = 0; pair < kCategories; pair += 2) {
    z += kFactor * kFactor * hidden(keys[pair], 2) * hidden(keys[pair + 1], 2);
  }
  sample.label = prng_.chance(1.0 / (1.0 + std::exp(-z))) ? 1.0f : 0.0f;
  sample.group = ++row_;
  return true;
}

}  // namespace sumcast::dataset

#include "hotset/heat.h"

#include <algorithm>
#include <numeric>

#include "base/assert.h"

namespace sumcast::hotset {

uint64_t Heat::updates() const {
  return std::accumulate(touches.begin(), touches.end(), uint64_t{0});
}

std::vector<uint32_t> draw_rows(const Corpus& corpus, double share, Prng& prng) {
  SUMCAST_ASSERT(share > 0 && share <= 1);
  SUMCAST_ASSERT(corpus.rows() <= UINT32_MAX);
  std::vector<uint32_t> rows(corpus.rows());
  std::iota(rows.begin(), rows.end(), 0u);
  const auto wanted = static_cast<size_t>(share * static_cast<double>(rows.size()) + 0.5);
  const size_t count = std::min(rows.size(), std::max<size_t>(wanted, 1));
  for (size_t i = 0; i < count; ++i) {  // Fisher and Yates, as far as needed.
    std::swap(rows[i], rows[i + prng.below(rows.size() - i)]);
  }
  rows.resize(count);
  return rows;
}

Heat count_touches(const Corpus& corpus, std::span<const uint32_t> rows, size_t batch) {
  SUMCAST_ASSERT(batch >= 1);
  constexpr uint64_t kNever = UINT64_MAX;
  Heat heat;
  heat.touches.assign(corpus.distinct_keys(), 0);
  heat.batches = (rows.size() + batch - 1) / batch;
  std::vector<uint64_t> last_batch(corpus.distinct_keys(), kNever);
  for (size_t i = 0; i < rows.size(); ++i) {
    const uint64_t current = i / batch;
    for (const KeyIndex key : corpus.row(rows[i])) {
      if (last_batch[key] == current) continue;
      last_batch[key] = current;
      ++heat.touches[key];
    }
  }
  return heat;
}

std::vector<KeyIndex> by_heat(const Corpus& corpus, const Heat& heat) {
  std::vector<KeyIndex> order;
  for (KeyIndex key = 0; key < heat.touches.size(); ++key) {
    if (heat.touches[key] > 0) order.push_back(key);
  }
  std::sort(order.begin(), order.end(), [&](KeyIndex a, KeyIndex b) {
    if (heat.touches[a] != heat.touches[b]) return heat.touches[a] > heat.touches[b];
    return corpus.key(a) < corpus.key(b);
  });
  return order;
}

double share_of_first(const Heat& heat, std::span<const KeyIndex> order, size_t count) {
  uint64_t taken = 0;
  for (const KeyIndex key : order.first(std::min(count, order.size()))) taken += heat.touches[key];
  const uint64_t all = heat.updates();
  return all == 0 ? 0.0 : static_cast<double>(taken) / static_cast<double>(all);
}

size_t keys_for_half(const Heat& heat, std::span<const KeyIndex> order) {
  const uint64_t all = heat.updates();
  uint64_t taken = 0;
  size_t count = 0;
  while (count < order.size() && 2 * taken < all) taken += heat.touches[order[count++]];
  return count;
}

SampleQuality judge_sample(const Heat& full, std::span<const KeyIndex> true_order,
                           std::span<const KeyIndex> chosen) {
  if (chosen.empty()) return {};
  std::vector<bool> is_hot(full.touches.size(), false);
  uint64_t best = 0, caught = 0, shared = 0;
  for (const KeyIndex key : true_order.first(std::min(chosen.size(), true_order.size()))) {
    is_hot[key] = true;
    best += full.touches[key];
  }
  for (const KeyIndex key : chosen) {
    caught += full.touches[key];
    shared += is_hot[key] ? 1 : 0;
  }
  return {best == 0 ? 0.0 : static_cast<double>(caught) / static_cast<double>(best),
          static_cast<double>(shared) / static_cast<double>(chosen.size())};
}

}  // namespace sumcast::hotset

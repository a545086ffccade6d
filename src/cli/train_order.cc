#include "cli/train_order.h"

#include <algorithm>
#include <numeric>

#include "base/prng.h"

namespace sumcast::cli {

uint64_t steps_of(size_t items, const TrainOptions& options) {
  const uint64_t together = uint64_t{options.workers} * options.batch;
  return (items + together - 1) / together;
}

std::vector<uint32_t> epoch_order(size_t items, uint32_t epoch, const TrainOptions& options) {
  std::vector<uint32_t> order(items);
  std::iota(order.begin(), order.end(), 0u);
  if (options.is_in_order()) return order;
  Prng random(options.seed * 1'000'003 + epoch);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

std::span<const uint32_t> share_of_step(std::span<const uint32_t> order, uint64_t step,
                                        uint32_t rank, const TrainOptions& options) {
  const uint64_t first = (step * options.workers + rank) * options.batch;
  const uint64_t begin = std::min<uint64_t>(first, order.size());
  const uint64_t end = std::min<uint64_t>(first + options.batch, order.size());
  return order.subspan(begin, end - begin);
}

std::vector<size_t> sampled(size_t items, const TrainOptions& options) {
  std::vector<size_t> places;
  const auto first = static_cast<size_t>(options.sample * static_cast<double>(items) + 0.5);
  Prng random(options.seed);
  for (size_t place = 0; place < items; ++place) {
    const bool is_in = random.chance(options.sample);
    if (options.is_in_order() ? place < std::max<size_t>(first, 1) : is_in) {
      places.push_back(place);
    }
  }
  return places;
}

Result<void> peek_rows(sparse::Worker& rows, std::span<const uint64_t> keys, size_t width,
                       std::vector<float>& memory, std::vector<const float*>& views) {
  memory.resize(keys.size() * width);
  if (auto read = rows.peek(keys, memory.data()); !read) return read;
  views.resize(keys.size());
  for (size_t i = 0; i < views.size(); ++i) views[i] = memory.data() + i * width;
  return {};
}

}  // namespace sumcast::cli

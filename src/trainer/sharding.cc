#include "trainer/sharding.h"

#include <numeric>
#include <utility>

#include "base/assert.h"
#include "base/prng.h"

namespace sumcast::trainer {

BatchSampler::BatchSampler(Place place, size_t images, size_t batch, uint64_t seed)
    : place_(place), batch_(batch), per_step_(batch * place.world), seed_(seed), order_(images) {
  SUMCAST_ASSERT(place.rank.value < place.world);
  SUMCAST_ASSERT(batch > 0);
}

void BatchSampler::start_epoch(uint64_t epoch) {
  // Seed and epoch pass through the generator one after the other, so that neither seed + 1 nor
  // epoch + 1 gives a shifted copy of the same numbers.
  Prng prng(Prng(seed_).next_u64() ^ Prng(~epoch).next_u64());
  std::iota(order_.begin(), order_.end(), 0u);
  for (size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[prng.below(i)]);
}

std::span<const uint32_t> BatchSampler::indices(size_t step) const {
  SUMCAST_ASSERT(step < steps_per_epoch());
  return std::span(order_).subspan(step * per_step_ + place_.rank.value * batch_, batch_);
}

}  // namespace sumcast::trainer

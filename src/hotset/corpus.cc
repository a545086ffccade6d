#include "hotset/corpus.h"

#include "base/assert.h"

namespace sumcast::hotset {

void Corpus::add_row(std::span<const uint64_t> keys) {
  for (const uint64_t key : keys) {
    const auto [place, is_new] = known_.emplace(key, static_cast<KeyIndex>(keys_.size()));
    if (is_new) {
      SUMCAST_ASSERT(keys_.size() < UINT32_MAX);
      keys_.push_back(key);
    }
    indices_.push_back(place->second);
  }
  ends_.push_back(indices_.size());
}

std::span<const KeyIndex> Corpus::row(size_t index) const {
  SUMCAST_ASSERT(index < ends_.size());
  const size_t begin = index == 0 ? 0 : ends_[index - 1];
  return std::span(indices_).subspan(begin, ends_[index] - begin);
}

}  // namespace sumcast::hotset

#include "hotset/space_saving.h"

#include "base/assert.h"

namespace sumcast::hotset {

SpaceSaving::SpaceSaving(size_t counters) : counters_max_(counters) {
  SUMCAST_ASSERT(counters >= 1);
  heap_.reserve(counters);
  place_of_.reserve(counters + 1);
}

/// Ties by key, so that the order of a standard library's hash table plays no part.
bool SpaceSaving::colder(size_t a, size_t b) const {
  if (heap_[a].heat != heap_[b].heat) return heap_[a].heat < heap_[b].heat;
  return heap_[a].key < heap_[b].key;
}

void SpaceSaving::swap_places(size_t a, size_t b) {
  std::swap(heap_[a], heap_[b]);
  place_of_[heap_[a].key] = a;
  place_of_[heap_[b].key] = b;
}

void SpaceSaving::sink(size_t place) {
  for (;;) {
    const size_t left = 2 * place + 1, right = left + 1;
    size_t coldest = place;
    if (left < heap_.size() && colder(left, coldest)) coldest = left;
    if (right < heap_.size() && colder(right, coldest)) coldest = right;
    if (coldest == place) return;
    swap_places(place, coldest);
    place = coldest;
  }
}

void SpaceSaving::add(uint64_t key, double weight) {
  SUMCAST_DCHECK(weight > 0);
  const auto known = place_of_.find(key);
  if (known != place_of_.end()) {
    heap_[known->second].heat += weight;
    sink(known->second);
    return;
  }
  if (heap_.size() < counters_max_) {
    size_t place = heap_.size();
    heap_.push_back({key, weight, 0});
    place_of_[key] = place;
    while (place > 0 && colder(place, (place - 1) / 2)) {
      swap_places(place, (place - 1) / 2);
      place = (place - 1) / 2;
    }
    return;
  }
  Counter& coldest = heap_[0];
  place_of_.erase(coldest.key);
  coldest = {key, coldest.heat + weight, coldest.heat};
  place_of_[key] = 0;
  sink(0);
}

void SpaceSaving::scale(double factor) {
  SUMCAST_ASSERT(factor > 0);
  for (Counter& counter : heap_) {
    counter.heat *= factor;
    counter.error *= factor;
  }
}

std::optional<SpaceSaving::Counter> SpaceSaving::find(uint64_t key) const {
  const auto known = place_of_.find(key);
  if (known == place_of_.end()) return std::nullopt;
  return heap_[known->second];
}

}  // namespace sumcast::hotset

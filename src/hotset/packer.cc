#include "hotset/packer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

#include "base/assert.h"

namespace sumcast::hotset {

Packer::Packer(const Placement& placement)
    : placement_(placement),
      load_(placement.arrays),
      movable_(placement.arrays),
      heads_(size_t{placement.arrays} * placement.arrays),
      filled_(placement.arrays) {}

/// Lays a doubled key into `array`; it might lie in `other` instead.
void Packer::put(uint32_t key, uint32_t array, uint32_t other) {
  array_of_[key] = static_cast<uint16_t>(array);
  ++load_[array];
  next_[key] = head(array, other);
  head(array, other) = key;
  movable_[array] |= uint64_t{1} << other;
}

/// Moves one key from `from` to its other array `to`.
void Packer::take_and_put(uint32_t from, uint32_t to) {
  const uint32_t key = head(from, to);
  SUMCAST_DCHECK(key != kNone);
  head(from, to) = next_[key];
  if (head(from, to) == kNone) movable_[from] &= ~(uint64_t{1} << to);
  --load_[from];
  put(key, to, from);
}

void Packer::assign(std::span<const uint32_t> ranks) {
  std::fill(load_.begin(), load_.end(), 0);
  std::fill(movable_.begin(), movable_.end(), 0);
  std::fill(heads_.begin(), heads_.end(), kNone);
  next_.assign(ranks.size(), kNone);
  array_of_.resize(ranks.size());
  for (uint32_t i = 0; i < ranks.size(); ++i) {
    SUMCAST_ASSERT(ranks[i] < placement_.keys.size());
    const PlacedKey& placed = placement_.keys[ranks[i]];
    if (placed.second.exists()) continue;
    array_of_[i] = placed.first.array;
    ++load_[placed.first.array];
  }
  for (uint32_t i = 0; i < ranks.size(); ++i) {  // Those with a choice come when loads are known.
    const PlacedKey& placed = placement_.keys[ranks[i]];
    if (!placed.second.exists()) continue;
    const uint32_t a = placed.first.array, b = placed.second.array;
    if (load_[a] <= load_[b]) {
      put(i, a, b);
    } else {
      put(i, b, a);
    }
  }
}

/// Takes one key off `fullest`, through others if need be. False if nothing can.
bool Packer::relieve(uint32_t fullest) {
  std::array<uint8_t, kArraysMax> came_from{};
  std::array<uint8_t, kArraysMax> queue{};
  size_t queued = 0;
  uint64_t seen = uint64_t{1} << fullest;
  queue[queued++] = static_cast<uint8_t>(fullest);
  for (size_t i = 0; i < queued; ++i) {
    for (uint64_t reachable = movable_[queue[i]] & ~seen; reachable != 0;
         reachable &= reachable - 1) {
      const auto array = static_cast<uint8_t>(std::countr_zero(reachable));
      came_from[array] = queue[i];
      if (load_[array] + 2 <= load_[fullest]) {
        // From the end of the path backwards, so that every move finds its key where it was.
        for (uint32_t to = array; to != fullest; to = came_from[to]) {
          take_and_put(came_from[to], to);
        }
        return true;
      }
      seen |= uint64_t{1} << array;
      queue[queued++] = array;
    }
  }
  return false;
}

void Packer::emit(std::span<const uint32_t> ranks) {
  const uint32_t packets = *std::max_element(load_.begin(), load_.end());
  packed_.packets.assign(packets, {});
  packed_.lanes.resize(ranks.size());
  // Bucket after bucket gives lanes of a packet in rising order of arrays: bitmaps first, ...
  for (uint32_t array = 0; array < placement_.arrays; ++array) {
    for (uint32_t j = 0; j < load_[array]; ++j) {
      packed_.packets[j].lane_bitmap |= uint64_t{1} << array;
    }
  }
  uint32_t first = 0;
  for (Packet& packet : packed_.packets) {
    packet.first_lane = first;
    first += static_cast<uint32_t>(std::popcount(packet.lane_bitmap));
  }
  // ... then every key into the lane that its array and its turn give it.
  std::fill(filled_.begin(), filled_.end(), 0);
  for (uint32_t i = 0; i < ranks.size(); ++i) {
    const uint16_t array = array_of_[i];
    const PlacedKey& placed = placement_.keys[ranks[i]];
    const Packet& packet = packed_.packets[filled_[array]++];
    const uint64_t below = packet.lane_bitmap & ((uint64_t{1} << array) - 1);
    packed_.lanes[packet.first_lane + static_cast<uint32_t>(std::popcount(below))] = {
        ranks[i], placed.first.array == array ? placed.first : placed.second};
  }
}

const PackedBatch& Packer::pack(std::span<const uint32_t> ranks) {
  SUMCAST_ASSERT(ranks.size() < kNone);
  assign(ranks);
  const size_t least = (ranks.size() + placement_.arrays - 1) / placement_.arrays;
  for (;;) {
    const auto fullest = std::max_element(load_.begin(), load_.end());
    if (*fullest <= least || !relieve(static_cast<uint32_t>(fullest - load_.begin()))) break;
  }
  emit(ranks);
  return packed_;
}

NaivePacking pack_naively(const Placement& placement, std::span<const uint32_t> ranks) {
  NaivePacking naive;
  std::vector<uint32_t> load(placement.arrays);
  for (size_t begin = 0; begin < ranks.size(); begin += placement.arrays) {
    const auto packet =
        ranks.subspan(begin, std::min<size_t>(placement.arrays, ranks.size() - begin));
    std::fill(load.begin(), load.end(), 0);
    for (const uint32_t rank : packet) {
      if (load[placement.keys[rank].first.array]++ > 0) ++naive.conflicts;
    }
    ++naive.packets;
    naive.passes += *std::max_element(load.begin(), load.end());
  }
  return naive;
}

}  // namespace sumcast::hotset

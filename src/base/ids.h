// Numbers that must not be mixed up: one type per meaning.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace sumcast {

/// A distinct integer type. `Tag` only tells types apart.
template <typename Tag, typename Integer>
struct Id {
  Integer value = 0;

  constexpr Id() = default;
  constexpr explicit Id(Integer v) : value(v) {}
  constexpr auto operator<=>(const Id&) const = default;
};

using Rank = Id<struct RankTag, uint16_t>;         ///< Index of a worker in its job, from 0.
using ShardIndex = Id<struct ShardTag, uint16_t>;  ///< Index of an aggregator shard in its job.
using SlotIndex = Id<struct SlotTag, uint16_t>;    ///< Index of a slot in one shard of one job.
using GroupId = Id<struct GroupTag, uint16_t>;     ///< Index of a group in its job; 0 is the world.
using Epoch = Id<struct EpochTag, uint16_t>;       ///< Membership epoch.
using Incarnation = Id<struct IncarnationTag, uint32_t>;  ///< Random, issued when a job starts.

/// True if `a` comes before `b` on a 32-bit circle (serial number arithmetic, RFC 1982).
constexpr bool serial_before(uint32_t a, uint32_t b) { return static_cast<int32_t>(a - b) < 0; }

}  // namespace sumcast

template <typename Tag, typename Integer>
struct std::hash<sumcast::Id<Tag, Integer>> {
  size_t operator()(sumcast::Id<Tag, Integer> id) const noexcept {
    return std::hash<Integer>{}(id.value);
  }
};

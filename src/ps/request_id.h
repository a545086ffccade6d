// A request's name among those of its worker's process. A request to several servers has the same
// at each.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <type_traits>

#include "ps/internal/message.h"

namespace sumcast::ps {

/// Customers of the library's own requests (hub_sums.cc); programs count from 0.
inline constexpr int kHarvester = INT32_MIN + 1, kReplayer = INT32_MIN + 2;

struct RequestId {
  int32_t app = 0, customer = 0, timestamp = 0;

  friend auto operator<=>(const RequestId&, const RequestId&) = default;
};
static_assert(std::has_unique_object_representations_v<RequestId>);

/// For tables; numbers of one customer follow one another, so they alone spread well.
struct RequestIdHash {
  size_t operator()(const RequestId& id) const {
    const auto high = static_cast<uint64_t>(static_cast<uint32_t>(id.app * 31 + id.customer)) << 32;
    return std::hash<uint64_t>()((high | static_cast<uint32_t>(id.timestamp)) * 0x9E3779B97F4A7C15);
  }
};

inline RequestId id_of(const ::ps::Meta& meta) {
  return {meta.app_id, meta.customer_id, meta.timestamp};
}

}  // namespace sumcast::ps

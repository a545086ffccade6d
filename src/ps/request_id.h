// A request's name among those of its worker's process. A request to several servers has the same
// at each.
#pragma once

#include <compare>
#include <cstdint>
#include <type_traits>

#include "ps/internal/message.h"

namespace sumcast::ps {

struct RequestId {
  int32_t app = 0, customer = 0, timestamp = 0;

  friend auto operator<=>(const RequestId&, const RequestId&) = default;
};
static_assert(std::has_unique_object_representations_v<RequestId>);

inline RequestId id_of(const ::ps::Meta& meta) {
  return {meta.app_id, meta.customer_id, meta.timestamp};
}

}  // namespace sumcast::ps

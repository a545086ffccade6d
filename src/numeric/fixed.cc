#include "numeric/fixed.h"

#include <algorithm>
#include <limits>

#include "base/assert.h"
#include "numeric/fixed_kernels.h"
#include "numeric/fixed_lane.h"

namespace sumcast::numeric {
namespace {

// The part of a chunk that lies in one block.
struct Segment {
  size_t first = 0;  ///< Lane of the chunk.
  size_t lanes = 0;
  BlockCode code;
};

// Calls `body` for each segment of a chunk, in order.
template <typename Body>
void for_each_segment(size_t lanes, uint64_t first_element, const BlockCode* codes, Body body) {
  size_t in_block = static_cast<size_t>(first_element % kBlockLanes);
  for (size_t done = 0; done < lanes; ++codes) {
    const size_t count = std::min(kBlockLanes - in_block, lanes - done);
    body(Segment{done, count, *codes});
    done += count;
    in_block = 0;
  }
}

void check_group_size(uint32_t group_size) {
  SUMCAST_ASSERT(group_size >= 1);
  SUMCAST_ASSERT(group_size <= kGroupSizeMax);
}

}  // namespace

void block_codes(const float* source, size_t elements, BlockCode* codes) {
  for (size_t i = 0; i < elements; i += kBlockLanes) {
    *codes++ = block_code(source + i, std::min(kBlockLanes, elements - i));
  }
}

void encode_fixed(const float* source, size_t lanes, uint64_t first_element, const BlockCode* codes,
                  uint32_t group_size, std::byte* payload) {
  check_group_size(group_size);
  for_each_segment(lanes, first_element, codes, [&](const Segment& segment) {
    const float* from = source + segment.first;
    std::byte* to = payload + 4 * segment.first;
    if (segment.code.nonfinite == 0) {
      const Scaling scaling(plain_scale_log2(group_size) - block_exponent(segment.code));
      return encode_plain(from, segment.lanes, scaling, to);
    }
    // Rare, and training skips such a step: one lane at a time is fast enough.
    const std::byte* bytes = reinterpret_cast<const std::byte*>(from);
    for (size_t i = 0; i < 4 * segment.lanes; i += 4) {
      const float value = load_unaligned<float>(bytes + i);
      store_unaligned(to + i, flagged_lane(value, segment.code, group_size));
    }
  });
}

void decode_fixed(const std::byte* payload, size_t lanes, uint64_t first_element,
                  const BlockCode* codes, uint32_t group_size, bool average, float* destination) {
  check_group_size(group_size);
  for_each_segment(lanes, first_element, codes, [&](const Segment& segment) {
    const std::byte* from = payload + 4 * segment.first;
    float* to = destination + segment.first;
    if (segment.code.nonfinite == 0) {
      const Unscaling unscaling(segment.code, plain_scale_log2(group_size), group_size, average);
      return decode_plain(from, segment.lanes, unscaling, to);
    }
    std::byte* bytes = reinterpret_cast<std::byte*>(to);
    for (size_t i = 0; i < 4 * segment.lanes; i += 4) {
      const int32_t sum = load_unaligned<int32_t>(from + i);
      store_unaligned(bytes + i, flagged_value(sum, segment.code, group_size, average));
    }
  });
}

double fixed_error_bound(BlockCode code, uint32_t group_size) {
  check_group_size(group_size);
  const bool flagged = code.nonfinite != 0;
  if (flagged && group_size >= kFlaggedValuesGroupEnd) {
    return std::numeric_limits<double>::infinity();
  }
  const int scale_log2 = flagged ? flagged_scale_log2(group_size) : plain_scale_log2(group_size);
  return std::ldexp(group_size, block_exponent(code) - scale_log2 - 1);
}

}  // namespace sumcast::numeric

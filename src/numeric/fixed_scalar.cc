#include "numeric/fixed_scalar.h"

#include <algorithm>

#include "numeric/fixed_lane.h"

namespace sumcast::numeric::scalar {
namespace {

// The code of lane `i` of a chunk; `codes` starts with that of the block holding the first lane.
BlockCode code_of(size_t i, uint64_t first_element, const BlockCode* codes) {
  return codes[(first_element + i) / kBlockLanes - first_element / kBlockLanes];
}

}  // namespace

BlockCode block_code(const float* source, size_t lanes) {
  BlockCode code;
  for (size_t i = 0; i < lanes; ++i) {
    const float value = load_unaligned<float>(reinterpret_cast<const std::byte*>(source) + 4 * i);
    if (!std::isfinite(value)) {
      code.nonfinite = 1;
      continue;
    }
    const uint32_t magnitude = std::bit_cast<uint32_t>(value) & kMagnitudeMaskF32;
    code.exponent = std::max(code.exponent, static_cast<uint8_t>(magnitude >> 23));
  }
  return code;
}

void encode_fixed(const float* source, size_t lanes, uint64_t first_element, const BlockCode* codes,
                  uint32_t group_size, std::byte* payload) {
  for (size_t i = 0; i < lanes; ++i) {
    const float value = load_unaligned<float>(reinterpret_cast<const std::byte*>(source) + 4 * i);
    const BlockCode code = code_of(i, first_element, codes);
    store_unaligned(payload + 4 * i, code.nonfinite != 0 ? flagged_lane(value, code, group_size)
                                                         : plain_lane(value, code, group_size));
  }
}

void decode_fixed(const std::byte* payload, size_t lanes, uint64_t first_element,
                  const BlockCode* codes, uint32_t group_size, bool average, float* destination) {
  for (size_t i = 0; i < lanes; ++i) {
    const int32_t sum = load_unaligned<int32_t>(payload + 4 * i);
    const BlockCode code = code_of(i, first_element, codes);
    const float value = code.nonfinite != 0 ? flagged_value(sum, code, group_size, average)
                                            : plain_value(sum, code, group_size, average);
    store_unaligned(reinterpret_cast<std::byte*>(destination) + 4 * i, value);
  }
}

}  // namespace sumcast::numeric::scalar

// Any bytes as payloads of rows: what is_rows() lets pass can be stored and added, and stays within
// its memory. Every payload lies in a block of its exact size, so that a sanitizer sees each step
// beyond an end.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <vector>

#include "base/assert.h"
#include "fuzz/byte_source.h"
#include "fuzz/targets.h"
#include "numeric/rows.h"

namespace sumcast::fuzz {
namespace {

constexpr uint32_t kSlotsMax = 100;
constexpr uint32_t kWidthMax = 40;

using Payload = std::vector<std::byte>;

struct Choice {
  WireFormat format;
  Reduction reduction;
  numeric::RowShape shape;  ///< Of the payloads that are not noise.
};

/// Noise, or a payload whose shape and length are nearly right.
Payload next_payload(ByteSource& bytes, const Choice& choice) {
  Payload payload;
  if (bytes.below(8) == 0) {
    payload.resize(bytes.below(64));
    for (std::byte& b : payload) b = std::byte{bytes.u8()};
    return payload;
  }
  const auto slots = static_cast<uint16_t>(bytes.near(choice.shape.slots));
  const auto width = static_cast<uint16_t>(bytes.near(choice.shape.width));
  std::array<std::byte, 4 + 4 * (kSlotsMax / 32 + 1)> prefix{};
  std::memcpy(prefix.data(), &slots, sizeof slots);
  std::memcpy(prefix.data() + 2, &width, sizeof width);
  size_t rows = 0;
  const bool clean = bytes.below(8) != 0;
  for (size_t at = 4; at < numeric::rows_payload_bytes(choice.format, choice.shape, 0); ++at) {
    prefix[at] = std::byte{bytes.u8()};
    // Bits beyond the last slot make it no payload of rows: now and then only.
    const size_t left = choice.shape.slots - std::min<size_t>(choice.shape.slots, 8 * (at - 4));
    if (left < 8 && clean) prefix[at] &= static_cast<std::byte>((1u << left) - 1);
    rows += static_cast<size_t>(std::popcount(static_cast<uint8_t>(prefix[at])));
  }
  const size_t right = numeric::rows_payload_bytes(choice.format, choice.shape, rows);
  payload.resize(std::min<size_t>(bytes.near(static_cast<uint32_t>(right)), 2 * right));
  std::copy_n(prefix.begin(), std::min(prefix.size(), payload.size()), payload.begin());
  for (size_t at = prefix.size(); at < payload.size(); ++at) payload[at] = std::byte{bytes.u8()};
  return payload;
}

/// Stores it where only its cell has room. @return the rows that it holds, one bit each.
std::vector<uint64_t> store(WireFormat format, const Payload& payload) {
  const numeric::RowShape shape = numeric::shape_of(payload);
  std::vector<float> cell(size_t{shape.slots} * shape.width);
  std::vector<uint64_t> touched((size_t{shape.slots} + 63) / 64);
  const size_t rows = numeric::decode_rows(format, payload, cell.data(), touched.data(), 0);
  size_t bits = 0;
  for (const uint64_t word : touched) bits += static_cast<size_t>(std::popcount(word));
  SUMCAST_ASSERT(rows == bits);
  SUMCAST_ASSERT(payload.size() >= numeric::rows_payload_bytes(format, shape, rows));
  return touched;
}

/// The sum has the union of the rows, and is a payload itself.
void add(const Choice& choice, const std::vector<Payload>& payloads) {
  const numeric::RowShape shape = numeric::shape_of(payloads[0]);
  std::vector<const std::byte*> sources, scratch(2 * payloads.size());
  std::vector<uint64_t> all((size_t{shape.slots} + 63) / 64);
  for (const Payload& payload : payloads) {
    sources.push_back(payload.data());
    const std::vector<uint64_t> rows = store(choice.format, payload);
    for (size_t i = 0; i < all.size(); ++i) all[i] |= rows[i];
  }
  Payload sum(numeric::rows_payload_bytes(choice.format, shape, shape.slots));
  const size_t bytes =
      numeric::fold_rows(choice.format, choice.reduction, sources.data(), sources.size(),
                         static_cast<uint32_t>(sources.size()), scratch, sum.data());
  SUMCAST_ASSERT(bytes <= sum.size());
  sum.resize(bytes);
  sum.shrink_to_fit();
  SUMCAST_ASSERT(numeric::is_rows(choice.format, sum));
  SUMCAST_ASSERT(numeric::shape_of(sum) == shape);
  SUMCAST_ASSERT(store(choice.format, sum) == all);
}

}  // namespace

void rows(std::span<const uint8_t> input) {
  ByteSource bytes(input);
  Choice choice;
  choice.format = static_cast<WireFormat>(bytes.below(kWireFormats));
  choice.reduction = bytes.below(2) == 0 ? Reduction::kSum : Reduction::kAvg;
  choice.shape = {static_cast<uint16_t>(1 + bytes.below(kSlotsMax)),
                  static_cast<uint16_t>(1 + bytes.below(kWidthMax))};
  std::vector<Payload> good;
  const uint32_t count = 1 + bytes.below(4);
  for (uint32_t i = 0; i < count; ++i) {
    Payload payload = next_payload(bytes, choice);
    if (!numeric::is_rows(choice.format, payload)) continue;
    SUMCAST_ASSERT(numeric::carries_rows(choice.format));
    // What a shard checks before it adds (P15): one operation has one shape.
    if (good.empty() || numeric::shape_of(payload) == numeric::shape_of(good[0])) {
      good.push_back(std::move(payload));
    }
  }
  if (!good.empty()) add(choice, good);
}

}  // namespace sumcast::fuzz

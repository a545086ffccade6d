// Any bytes as compact payloads: what expanded_bytes() lets pass is expanded within its memory, and
// what is made compact comes back. Every payload lies in a block of its exact size, so that a
// sanitizer sees each step beyond an end.
#include <algorithm>
#include <vector>

#include "base/assert.h"
#include "fuzz/byte_source.h"
#include "fuzz/targets.h"
#include "wire/compact.h"

namespace sumcast::fuzz {
namespace {

using Payload = std::vector<std::byte>;

void expand_if_compact(const Payload& payload) {
  const auto bytes = wire::expanded_bytes(payload);
  if (!bytes) return;
  SUMCAST_ASSERT(*bytes > 0);
  Payload whole(*bytes);
  wire::expand(payload, whole.data());
}

void make_and_expand(ByteSource& bytes) {
  Payload whole(8 * bytes.below(256) + bytes.below(8));
  for (size_t at = 0; at < whole.size();) {
    const size_t end = std::min(whole.size(), at + 1 + bytes.below(96));
    const auto value = bytes.below(3) == 0 ? std::byte{bytes.u8()} : std::byte{0};
    std::fill(whole.begin() + static_cast<std::ptrdiff_t>(at),
              whole.begin() + static_cast<std::ptrdiff_t>(end), value);
    at = end;
  }
  const wire::ZeroMap zeros = wire::find_zeros(whole);
  const size_t length = zeros.bytes;
  if (length == 0) return;
  const size_t padded = length + bytes.below(64);
  Payload payload(padded);
  wire::compact(whole, zeros, payload.data());
  wire::pad_compact(payload.data(), length, padded);
  SUMCAST_ASSERT(wire::expanded_bytes(payload) == whole.size());
  Payload back(whole.size(), std::byte{0xEE});
  wire::expand(payload, back.data());
  SUMCAST_ASSERT(back == whole);
}

}  // namespace

void compact(std::span<const uint8_t> input) {
  ByteSource bytes(input);
  if (bytes.below(2) == 0) return make_and_expand(bytes);
  Payload payload(bytes.below(256));
  for (std::byte& b : payload) b = std::byte{bytes.u8()};
  // A length that fits is rare among all: now and then it is nearly right.
  if (payload.size() >= 2 && bytes.below(4) != 0) {
    const uint32_t whole = bytes.near(static_cast<uint32_t>(8 * payload.size()));
    payload[payload.size() - 2] = static_cast<std::byte>(whole >> 8 & 0xFF);
    payload[payload.size() - 1] = static_cast<std::byte>(whole & 0xFF);
  }
  expand_if_compact(payload);
}

}  // namespace sumcast::fuzz

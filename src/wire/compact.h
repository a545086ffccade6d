// Compact payloads: what a payload looks like whose blocks of zeros stay at home.
//
// Gradients of embeddings, of experts that no token chose and of layers that a branch skipped are
// zeros almost everywhere. A payload may then travel without its zero blocks, under
// kFlagCompact (P25):
//
//   0   the blocks that are not all zero, in order, 16 bytes each (the last block of a payload may
//       be shorter)
//   ..  anything: padding that makes neighbouring datagrams equally long
//   ..  u8[ceil(blocks / 8)]   bit i (of byte i / 8, counted from the lowest): block i is here
//   ..  u16 bytes              of the payload when it is whole, big endian like the header's fields
//
// What is left out is bytes that are zero, whatever they mean: expanded, a payload has the bits
// that it had, so nothing but the length of a datagram depends on who makes use of this, or when.
// The idea of leaving zero blocks out of dense sums is OmniReduce's (Fei et al., SIGCOMM 2021).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace sumcast::wire {

inline constexpr size_t kCompactBlockBytes = 16;
/// Shorter payloads travel as they are: their datagram's own cost is all there is.
inline constexpr size_t kCompactBytesMin = 256;
/// Longer ones, which no path carries, do too.
inline constexpr size_t kCompactBytesMax = 9216;

/// Where a payload's zeros are.
struct ZeroMap {
  /// Of the compact form; 0: it is not worth making, and `kept` is undefined.
  uint16_t bytes = 0;
  /// As in the trailer.
  std::array<uint8_t, (kCompactBytesMax / kCompactBlockBytes + 7) / 8> kept;
};

/// Looks for zeros. A compact form is worth making if it has at most two thirds of the bytes; some
/// are missed that lie so that a quick look does not see them.
ZeroMap find_zeros(std::span<const std::byte> payload);

/// Writes the compact form.
///
/// @param zeros  find_zeros(payload), its `bytes` not 0.
/// @param out    room for zeros.bytes; may be payload.data().
void compact(std::span<const std::byte> payload, const ZeroMap& zeros, std::byte* out);

/// Bytes of the trailer of a payload that has `bytes` when it is whole.
constexpr size_t compact_trailer_bytes(size_t bytes) {
  const size_t blocks = (bytes + kCompactBlockBytes - 1) / kCompactBlockBytes;
  return (blocks + 7) / 8 + sizeof(uint16_t);
}

/// Makes a compact payload longer, from `bytes` to `padded`.
///
/// @param payload  room for `padded` bytes.
void pad_compact(std::byte* payload, size_t bytes, size_t padded);

/// How many bytes a compact payload has when it is whole, at least 1; nothing if these bytes are
/// not a compact payload. Any bytes may be asked about.
std::optional<size_t> expanded_bytes(std::span<const std::byte> payload);

/// Writes the whole payload.
///
/// @param payload  expanded_bytes(payload) has a value.
/// @param out      room for so many bytes, none of them of `payload`.
void expand(std::span<const std::byte> payload, std::byte* out);

}  // namespace sumcast::wire

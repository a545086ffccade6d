#include "wire/compact.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/assert.h"
#include "wire/bytes.h"

namespace sumcast::wire {
namespace {

constexpr size_t kLineBytes = 64;
constexpr size_t kBlocksOfLine = kLineBytes / kCompactBlockBytes;
constexpr size_t kBytesOfByte = 8 * kCompactBlockBytes;  // Of a payload, by a byte of the bitmap.
static_assert(kBlocksOfLine == 4 && kCompactBytesMax <= UINT16_MAX);

uint64_t load_word(const std::byte* at) {
  uint64_t word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

/// Whether it is worth while to look at all blocks: a few words of the whole, then one of each
/// cache line. Dense lanes, which nobody has read yet, cost four words.
bool may_be_sparse(std::span<const std::byte> payload) {
  const auto is_zero_at = [&](size_t at) { return load_word(payload.data() + at) == 0; };
  const size_t quarter = payload.size() / 4;
  if (!is_zero_at(0) && !is_zero_at(quarter) && !is_zero_at(2 * quarter) &&
      !is_zero_at(3 * quarter)) {
    return false;
  }
  size_t zeros = 0, lines = 0;
  for (size_t at = 0; at + sizeof(uint64_t) <= payload.size(); at += kLineBytes, ++lines) {
    zeros += is_zero_at(at) ? 1 : 0;
  }
  return 3 * zeros >= lines;
}

/// Four bits: which blocks of a cache line's length are not zero.
unsigned kept_of_line(const std::byte* at) {
  unsigned kept = 0;
  for (size_t block = 0; block < kBlocksOfLine; ++block) {
    const std::byte* const from = at + block * kCompactBlockBytes;
    kept |= static_cast<unsigned>((load_word(from) | load_word(from + 8)) != 0) << block;
  }
  return kept;
}

/// How many bits of four are set. (The instruction that counts more is not on every processor.)
constexpr std::array<uint8_t, 16> kBitsOf = {0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4};
constexpr unsigned bits_of(unsigned byte) { return kBitsOf[byte & 15] + kBitsOf[byte >> 4]; }

/// Of a fixed length, so that no call is made.
void move_block(std::byte* to, const std::byte* from) {
  std::array<std::byte, kCompactBlockBytes> block;
  std::memcpy(block.data(), from, block.size());
  std::memcpy(to, block.data(), block.size());
}

}  // namespace

ZeroMap find_zeros(std::span<const std::byte> payload) {
  ZeroMap map;
  const size_t bytes = payload.size();
  if (bytes < kCompactBytesMin || bytes > kCompactBytesMax || !may_be_sparse(payload)) return map;
  const size_t lines = bytes / kLineBytes;
  const size_t rest_bytes = bytes - lines * kLineBytes;
  size_t blocks = 0;
  unsigned byte = 0;
  const auto add = [&](size_t line, unsigned kept) {
    blocks += kBitsOf[kept];
    byte = line % 2 == 0 ? kept : byte | kept << kBlocksOfLine;
    map.kept[line / 2] = static_cast<uint8_t>(byte);
  };
  for (size_t line = 0; line < lines; ++line) {
    add(line, kept_of_line(payload.data() + line * kLineBytes));
  }
  size_t missing = 0;  // The last block may be shorter than others.
  if (rest_bytes != 0) {
    std::array<std::byte, kLineBytes> rest{};
    std::memcpy(rest.data(), payload.data() + lines * kLineBytes, rest_bytes);
    const unsigned kept = kept_of_line(rest.data());
    add(lines, kept);
    const size_t last = (rest_bytes - 1) / kCompactBlockBytes;
    if ((kept >> last & 1u) != 0) missing = (last + 1) * kCompactBlockBytes - rest_bytes;
  }
  const size_t total = blocks * kCompactBlockBytes - missing + compact_trailer_bytes(bytes);
  if (3 * total <= 2 * bytes) map.bytes = static_cast<uint16_t>(total);
  return map;
}

void compact(std::span<const std::byte> payload, const ZeroMap& zeros, std::byte* out) {
  SUMCAST_ASSERT(zeros.bytes != 0);
  const size_t bytes = payload.size();
  std::byte* to = out;
  for (size_t byte = 0; byte * kBytesOfByte < bytes; ++byte) {
    for (unsigned bits = zeros.kept[byte]; bits != 0; bits &= bits - 1) {
      const size_t block = 8 * byte + static_cast<size_t>(std::countr_zero(bits));
      const size_t at = block * kCompactBlockBytes;
      if (at + kCompactBlockBytes <= bytes) {
        move_block(to, payload.data() + at);
        to += kCompactBlockBytes;
      } else {
        std::memmove(to, payload.data() + at, bytes - at);
        to += bytes - at;
      }
    }
  }
  const size_t bitmap_bytes = compact_trailer_bytes(bytes) - sizeof(uint16_t);
  std::memcpy(to, zeros.kept.data(), bitmap_bytes);
  store_big(to + bitmap_bytes, static_cast<uint16_t>(bytes));
}

void pad_compact(std::byte* payload, size_t bytes, size_t padded) {
  SUMCAST_ASSERT(bytes >= sizeof(uint16_t) && bytes <= padded);
  const size_t trailer =
      compact_trailer_bytes(load_big<uint16_t>(payload + bytes - sizeof(uint16_t)));
  std::byte* const blocks_end = payload + bytes - trailer;
  std::memmove(payload + padded - trailer, blocks_end, trailer);
  std::memset(blocks_end, 0, padded - bytes);
}

std::optional<size_t> expanded_bytes(std::span<const std::byte> payload) {
  if (payload.size() < sizeof(uint16_t)) return std::nullopt;
  const size_t bytes = load_big<uint16_t>(payload.data() + payload.size() - sizeof(uint16_t));
  const size_t trailer = compact_trailer_bytes(bytes);
  if (bytes == 0 || payload.size() < trailer) return std::nullopt;
  const std::byte* const bitmap = payload.data() + payload.size() - trailer;
  const size_t blocks = (bytes + kCompactBlockBytes - 1) / kCompactBlockBytes;
  size_t kept = 0;
  for (size_t i = 0; i < trailer - sizeof(uint16_t); ++i) {
    kept += bits_of(static_cast<unsigned>(bitmap[i]));
  }
  const size_t last = blocks - 1;
  const auto highest = static_cast<unsigned>(bitmap[last / 8]) >> (last % 8);
  if (highest > 1) return std::nullopt;  // Bits of blocks that are not.
  const size_t rest = bytes - last * kCompactBlockBytes;
  const size_t kept_bytes =
      kept * kCompactBlockBytes - (highest == 1 ? kCompactBlockBytes - rest : 0);
  if (kept_bytes + trailer > payload.size()) return std::nullopt;
  return bytes;
}

void expand(std::span<const std::byte> payload, std::byte* out) {
  const size_t bytes = load_big<uint16_t>(payload.data() + payload.size() - sizeof(uint16_t));
  const std::byte* bitmap = payload.data() + payload.size() - compact_trailer_bytes(bytes);
  const std::byte* from = payload.data();
  const std::byte* const whole_end = out + bytes / kBytesOfByte * kBytesOfByte;
  std::byte* to = out;
  for (; to != whole_end; to += kBytesOfByte, ++bitmap) {
    const auto bits = static_cast<unsigned>(*bitmap);
    std::memset(to, 0, kBytesOfByte);
    for (unsigned left = bits; left != 0; left &= left - 1) {
      move_block(to + static_cast<size_t>(std::countr_zero(left)) * kCompactBlockBytes, from);
      from += kCompactBlockBytes;
    }
  }
  for (size_t at = 0, rest = bytes % kBytesOfByte, bit = 0; at < rest; ++bit) {
    const size_t length = std::min(kCompactBlockBytes, rest - at);
    if ((static_cast<unsigned>(*bitmap) >> bit & 1u) != 0) {
      std::memcpy(to + at, from, length);
      from += length;
    } else {
      std::memset(to + at, 0, length);
    }
    at += length;
  }
}

}  // namespace sumcast::wire

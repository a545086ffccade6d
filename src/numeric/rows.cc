#include "numeric/rows.h"

#include <bit>
#include <cstring>

#include "base/assert.h"
#include "numeric/codec.h"
#include "numeric/fold.h"

namespace sumcast::numeric {
namespace {

constexpr size_t kShapeBytes = 4;
constexpr size_t kWordBits = 32;

size_t words_of(size_t slots) { return (slots + kWordBits - 1) / kWordBits; }
size_t prefix_bytes(size_t slots) { return kShapeBytes + words_of(slots) * sizeof(uint32_t); }
size_t row_bytes(WireFormat format, size_t width) {
  return payload_bytes(ElementType::kF32, format, width);
}

uint32_t read_word(const std::byte* payload, size_t word) {
  uint32_t value = 0;
  std::memcpy(&value, payload + kShapeBytes + word * sizeof value, sizeof value);
  return value;
}

void write_word(std::byte* payload, size_t word, uint32_t value) {
  std::memcpy(payload + kShapeBytes + word * sizeof value, &value, sizeof value);
}

void write_shape(RowShape shape, std::byte* payload) {
  std::memcpy(payload, &shape.slots, sizeof shape.slots);
  std::memcpy(payload + sizeof shape.slots, &shape.width, sizeof shape.width);
}

RowShape read_shape(const std::byte* payload) {
  RowShape shape;
  std::memcpy(&shape.slots, payload, sizeof shape.slots);
  std::memcpy(&shape.width, payload + sizeof shape.slots, sizeof shape.width);
  return shape;
}

static_assert(std::endian::native == std::endian::little, "payload words are little endian");

}  // namespace

size_t slots_per_cell(WireFormat format, size_t width, size_t payload_bytes_max) {
  const size_t row = row_bytes(format, width);
  const size_t most =
      payload_bytes_max / row < kCellSlotsMax ? payload_bytes_max / row : kCellSlotsMax;
  size_t slots = most;
  while (slots > 0 && prefix_bytes(slots) + slots * row > payload_bytes_max) --slots;
  return slots;
}

size_t rows_payload_bytes(WireFormat format, RowShape shape, size_t rows) {
  return prefix_bytes(shape.slots) + rows * row_bytes(format, shape.width);
}

RowShape shape_of(std::span<const std::byte> payload) {
  SUMCAST_ASSERT(payload.size() >= kShapeBytes);
  return read_shape(payload.data());
}

bool is_rows(WireFormat format, std::span<const std::byte> payload) {
  if (!carries_rows(format) || payload.size() < kShapeBytes) return false;
  const RowShape shape = read_shape(payload.data());
  if (shape.slots == 0 || shape.width == 0 || payload.size() < prefix_bytes(shape.slots)) {
    return false;
  }
  size_t rows = 0;
  for (size_t word = 0; word < words_of(shape.slots); ++word) {
    const uint32_t bits = read_word(payload.data(), word);
    const size_t left = shape.slots - word * kWordBits;
    if (left < kWordBits && (bits >> left) != 0) return false;
    rows += static_cast<size_t>(std::popcount(bits));
  }
  return payload.size() >= rows_payload_bytes(format, shape, rows);
}

size_t encode_rows(WireFormat format, RowShape shape, std::span<const uint32_t> slots,
                   uint32_t first, const float* rows, std::byte* payload) {
  const size_t bytes = row_bytes(format, shape.width);
  write_shape(shape, payload);
  std::memset(payload + kShapeBytes, 0, prefix_bytes(shape.slots) - kShapeBytes);
  std::byte* at = payload + prefix_bytes(shape.slots);
  for (const uint32_t slot : slots) {
    const uint32_t place = slot - first;
    SUMCAST_ASSERT(place < shape.slots);
    const size_t word = place / kWordBits;
    write_word(payload, word, read_word(payload, word) | uint32_t{1} << place % kWordBits);
    if (format == WireFormat::kNative) {
      std::memcpy(at, rows, bytes);
    } else {
      encode(format, rows, shape.width, at);
    }
    at += bytes;
    rows += shape.width;
  }
  return static_cast<size_t>(at - payload);
}

size_t decode_rows(WireFormat format, std::span<const std::byte> payload, float* cell,
                   uint64_t* touched, uint64_t first) {
  const RowShape shape = read_shape(payload.data());
  const size_t bytes = row_bytes(format, shape.width);
  const std::byte* at = payload.data() + prefix_bytes(shape.slots);
  size_t rows = 0;
  for (size_t word = 0; word < words_of(shape.slots); ++word) {
    for (uint32_t bits = read_word(payload.data(), word); bits != 0; bits &= bits - 1) {
      const size_t place = word * kWordBits + static_cast<size_t>(std::countr_zero(bits));
      float* row = cell + place * shape.width;
      if (format == WireFormat::kNative) {
        std::memcpy(row, at, bytes);
      } else {
        decode(format, at, shape.width, row);
      }
      touched[(first + place) / 64] |= uint64_t{1} << (first + place) % 64;
      at += bytes;
      ++rows;
    }
  }
  return rows;
}

size_t fold_rows(WireFormat format, Reduction reduction, const std::byte* const* sources,
                 size_t source_count, uint32_t group_size, std::span<const std::byte*> scratch,
                 std::byte* out) {
  SUMCAST_ASSERT(source_count >= 1 && scratch.size() >= 2 * source_count);
  const RowShape shape = read_shape(sources[0]);
  const size_t prefix = prefix_bytes(shape.slots);
  const size_t bytes = row_bytes(format, shape.width);
  const auto next = scratch.first(source_count);  // The first row of each that is not yet added.
  const auto holders = scratch.subspan(source_count, source_count);
  for (size_t s = 0; s < source_count; ++s) next[s] = sources[s] + prefix;
  write_shape(shape, out);
  std::byte* at = out + prefix;
  for (size_t word = 0; word < words_of(shape.slots); ++word) {
    uint32_t all = 0;
    for (size_t s = 0; s < source_count; ++s) all |= read_word(sources[s], word);
    write_word(out, word, all);
    for (uint32_t bits = all; bits != 0; bits &= bits - 1) {
      const uint32_t bit = bits & (~bits + 1);
      size_t count = 0;
      for (size_t s = 0; s < source_count; ++s) {
        if ((read_word(sources[s], word) & bit) == 0) continue;
        holders[count++] = next[s];
        next[s] += bytes;
      }
      if (format == WireFormat::kNative) {
        fold(ElementType::kF32, reduction, holders.data(), count, shape.width, group_size, at);
      } else {
        fold_encoded(format, reduction, holders.data(), count, shape.width, group_size, at);
      }
      at += bytes;
    }
  }
  return static_cast<size_t>(at - out);
}

}  // namespace sumcast::numeric

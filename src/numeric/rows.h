// Rows: what a chunk of a sparse operation carries, and how such chunks are added.
//
// A sparse operation sums a table of which every rank touches a few rows. The table is cut into
// cells of neighbouring slots, small enough that a whole cell fits one datagram. A payload carries
// those rows of one cell that somebody touched:
//
//   0  u16 slots   of the cell                      little endian
//   2  u16 width   f32 lanes of a row
//   4  u32[ceil(slots / 32)]                        bit i: row i is here
//   .. the rows whose bits are set, in order, payload_bytes(kF32, format, width) bytes each
//   .. anything: padding that makes neighbouring datagrams equally long
//
// The sum of payloads has the union of their rows, each folded from the left over the payloads that
// hold it, in the order in which they are given. As the union of a cell's rows fits whatever its
// rows are, a sum never outgrows its datagram.
//
// Nothing here knows of packets; payloads lie at any alignment, as in a receive buffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/element.h"

namespace sumcast::numeric {

/// What the first four bytes of a payload say.
struct RowShape {
  uint16_t slots = 0;
  uint16_t width = 0;
  friend bool operator==(const RowShape&, const RowShape&) = default;
};

inline constexpr size_t kCellSlotsMax = 4096;

/// Formats that carry rows: all but `fixed`, whose exponents belong to blocks of a dense tensor.
constexpr bool carries_rows(WireFormat format) { return format != WireFormat::kFixed; }

/// How many slots of this width make a cell: the most whose rows all fit `payload_bytes_max`, at
/// most kCellSlotsMax. 0: not even one fits.
size_t slots_per_cell(WireFormat format, size_t width, size_t payload_bytes_max);

/// Bytes of a payload that carries `rows` rows.
size_t rows_payload_bytes(WireFormat format, RowShape shape, size_t rows);

/// @pre payload.size() >= 4.
RowShape shape_of(std::span<const std::byte> payload);

/// Is this a payload that the functions below may read? Any bytes may be asked about. No rows at
/// all are fine, and so is padding.
bool is_rows(WireFormat format, std::span<const std::byte> payload);

/// Writes the rows `slots[i] - first` of a cell.
///
/// @param slots   ascending, distinct, first <= slots[i] < first + shape.slots.
/// @param rows    f32[slots.size()][shape.width]: row i belongs to slots[i].
/// @param payload room for rows_payload_bytes(format, shape, slots.size()).
/// @return bytes written.
size_t encode_rows(WireFormat format, RowShape shape, std::span<const uint32_t> slots,
                   uint32_t first, const float* rows, std::byte* payload);

/// Stores a payload's rows where they belong.
///
/// @param payload  is_rows(format, payload).
/// @param cell     f32[shape.slots][shape.width]: only rows whose bits are set are written.
/// @param touched  bit `first + i` is set for each of them; no other bit changes.
/// @return rows stored.
size_t decode_rows(WireFormat format, std::span<const std::byte> payload, float* cell,
                   uint64_t* touched, uint64_t first);

/// Adds payloads of one shape.
///
/// @param sources  source_count >= 1 payloads, is_rows() and of equal shape.
/// @param reduction kSum, or kAvg (each row's sum divided by `group_size`, touched or not).
/// @param scratch  2 * source_count pointers, for this call.
/// @param out      room for rows_payload_bytes(format, shape, shape.slots); no source.
/// @return bytes written.
size_t fold_rows(WireFormat format, Reduction reduction, const std::byte* const* sources,
                 size_t source_count, uint32_t group_size, std::span<const std::byte*> scratch,
                 std::byte* out);

}  // namespace sumcast::numeric

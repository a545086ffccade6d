// What is read of a row, wherever the row is held, and how it travels (P26, docs/numerics.md N24).
//
//   row, f32[width], exact   ── encode ──>   bytes on the wire   ── decode ──>   what is read
//   at a server                                                                  at a worker
//
// A worker that holds a hot row itself reads it through the same two steps (round), so a reader
// cannot tell from the bits who holds a row. What is kept, moved, saved or handed over is the exact
// row: the errors of reads do not add up.
//
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "numeric/codec.h"

namespace sumcast::sparse {

class RowCodec {
 public:
  /// @param format  one that carries rows (numeric::carries_rows); kNative: nothing is rounded.
  /// @param width   f32 lanes of a row.
  RowCodec(WireFormat format, size_t width)
      : format_(format),
        width_(width),
        row_bytes_(numeric::payload_bytes(ElementType::kF32, format, width)) {}

  /// Is what is read the row itself?
  bool is_exact() const { return format_ == WireFormat::kNative; }
  /// Of a row on the wire.
  size_t row_bytes() const { return row_bytes_; }

  /// @param row  f32[width].  @param out  room for row_bytes(), at any alignment.
  void encode(const float* row, std::byte* out) const {
    if (is_exact()) {
      std::memcpy(out, row, row_bytes_);
    } else {
      numeric::encode(format_, row, width_, out);
    }
  }
  /// @param rows  row_bytes() for each of `count` rows, from a peer: any bytes decode to something.
  /// @param out   f32[count][width].
  void decode(const std::byte* rows, size_t count, float* out) const {
    for (size_t i = 0; i < count; ++i, rows += row_bytes_, out += width_) {
      if (is_exact()) {
        std::memcpy(out, rows, row_bytes_);
      } else {
        numeric::decode(format_, rows, width_, out);
      }
    }
  }
  /// What is read of a row that is held here.
  ///
  /// @param scratch  row_bytes(), for this call.
  void round(const float* row, std::byte* scratch, float* out) const {
    encode(row, scratch);
    decode(scratch, 1, out);
  }

 private:
  WireFormat format_;
  size_t width_;
  size_t row_bytes_;
};

}  // namespace sumcast::sparse

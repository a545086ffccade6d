// The memory that the ranks of one host share in one group, and how it is laid out.
//
//   head | ready, turns [stage][buffer] | records [buffer][rank] | inputs [rank][buffer] | sums
//   [buffer]
//
// A *piece* of an operation uses buffer (piece number mod buffers): each rank writes its part of
// the piece into its input, the sum goes into `sums`. Inputs and sums have `piece_bytes` each and
// are touched only as far as pieces fill them, so a group of small operations costs a few pages.
//
// The memory is a sealed memfd: it has no name, ends with the last process that maps it (a crash
// leaves nothing behind), does not count against the size of /dev/shm, and nobody can shrink it
// under us. There are no locks in it. It does not know what operations are.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/result.h"
#include "host/turn.h"
#include "net/descriptor.h"

namespace sumcast::host {

/// The sizes of a segment; equal on all who map it.
struct Shape {
  uint32_t ranks = 0;        ///< Local ranks, 1..kLocalRanksMax.
  uint32_t buffers = 0;      ///< Pieces that may be under way at once.
  uint32_t piece_bytes = 0;  ///< A multiple of 4,096.
  bool operator==(const Shape&) const = default;
};
inline constexpr uint32_t kLocalRanksMax = 1024;

/// What ranks count together, for each piece.
enum class Stage : uint8_t {
  kIn = 0,    ///< The rank's part lies in its input.
  kFold = 1,  ///< Its share of the sum lies in `sums`.
  kNet = 2,   ///< The leader has the result of all hosts in `sums`.
  kOut = 3,   ///< It needs nothing of the piece any more: the buffer may be used again.
};
inline constexpr size_t kStages = 4;

/// What a rank says of the operation that a piece begins.
struct alignas(64) Record {
  uint64_t fingerprint = 0;  ///< wire::fingerprint_of the descriptor.
  uint32_t digest = 0;       ///< wire::digest_of it.
};

class Segment {
 public:
  /// A new segment of zeros. Errors: kSystem (no memory, descriptors, or memfd_create forbidden).
  static Result<Segment> create(const Shape& shape);
  /// Maps the one behind `memory`. Errors: kSystem; kMismatch if it is not of that shape.
  static Result<Segment> attach(net::FileDescriptor memory, const Shape& shape);

  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&&) = delete;
  ~Segment();

  const Shape& shape() const { return shape_; }
  /// To be handed to others; -1 after seal_off().
  int fd() const { return memory_.get(); }
  /// All have it: the mapping stays, the descriptor goes.
  void seal_off() { memory_.close(); }

  /// One arrival: the leader has opened what the team needs.
  Turn& ready() const;
  Turn& turn(Stage stage, uint32_t buffer) const;
  Record& record(uint32_t buffer, uint32_t rank) const;
  std::byte* input(uint32_t rank, uint32_t buffer) const;
  std::byte* sum(uint32_t buffer) const;

  /// Leaves `error` for all who share the segment, unless there is one already, and wakes them.
  void abort(const Error& error) const;
  /// Why it was aborted. An aborter that died while it wrote leaves a general text.
  std::optional<Error> aborted() const;

 private:
  struct Head;
  Segment(net::FileDescriptor memory, const Shape& shape, std::byte* base);
  static Result<Segment> map(net::FileDescriptor memory, const Shape& shape);
  Head& head() const;

  net::FileDescriptor memory_;
  Shape shape_;
  std::byte* base_ = nullptr;
  size_t turns_at_ = 0, records_at_ = 0, inputs_at_ = 0, sums_at_ = 0, bytes_ = 0;
};

}  // namespace sumcast::host

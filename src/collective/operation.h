// One collective operation on its way: what it is, whose memory it uses, and whether it is done.
//
// The engine fills it and the caller's Work handle reads it; either may go first (a caller may drop
// its handle while datagrams are in flight, an abort may end the operation while the caller holds
// on), hence std::shared_ptr.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "collective/geometry.h"
#include "wire/descriptor.h"

namespace sumcast::collective {

/// Which shards an operation goes through.
enum class Route : uint8_t {
  kAggregator = 0,  ///< The daemon's (`in-network`, `server`).
  kDirect = 1,      ///< Those embedded in the members.
};
inline constexpr size_t kRoutes = 2;

/// What a sum of rows needs beside its two tensors (fields of the same names in Operation).
struct RowLists {
  std::span<const uint32_t> slots;
  uint64_t* touched = nullptr;
};

struct Operation {
  wire::OperationDescriptor descriptor;
  Route route = Route::kDirect;
  uint32_t digest = 0;
  uint32_t group_size = 1;
  const std::byte* input = nullptr;  ///< The caller's, until done.
  std::byte* output = nullptr;       ///< The caller's, until done; may equal input.
  /// Sums of rows: which rows of the table `input` holds, ascending; and the bits that say which
  /// rows of `output` were written. The caller's, until done.
  std::span<const uint32_t> row_slots;
  uint64_t* rows_touched = nullptr;
  std::optional<Geometry> geometry;
  uint32_t windows_left = 0;  ///< Shards that still owe chunks.
  Instant posted_at{};
  Instant deadline = Instant::never();  ///< When its caller stops waiting; for people.

  /// Wire format `fixed`: exponent codes per block, combined over all ranks by an operation of
  /// their own that comes first.
  std::shared_ptr<std::vector<uint8_t>> block_codes;

  std::atomic<bool> done{false};
  std::optional<Error> error;  ///< Set before `done`.
};

using OperationPtr = std::shared_ptr<Operation>;

}  // namespace sumcast::collective

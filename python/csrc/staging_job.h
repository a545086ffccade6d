// One call on its way through a line; for the line's own sources.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>

#include "staged_work.h"
#include "staging.h"

namespace sumcast_torch {

using SteadyClock = std::chrono::steady_clock;

/// Large enough that copies and the network reach their pace, small enough to overlap early; a
/// multiple of 256 elements of every type.
constexpr int64_t kPieceBytes = int64_t{4} << 20;

std::shared_ptr<c10::Event> event_behind(const c10::Stream& stream);
at::Tensor pinned(c10::IntArrayRef sizes, c10::ScalarType type);
/// Contiguous, and its memory holds its values as they are.
bool is_plain(const at::Tensor& tensor);
void count_staged(const StagingTotals& more);

/// A copy on its way, for the time that it takes.
struct Line::Trip {
  SharedEvent begin, end;
  uint64_t bytes;
  bool is_in;
};

/// Pinned memory of one piece.
struct Line::Slot {
  at::Tensor bytes;  // uint8[kPieceBytes]
  SharedEvent free;  // The device has read it by then.
};

struct Line::Job {
  Cargo cargo;
  c10::intrusive_ptr<StagedWork> work;
  std::optional<c10::Device> device;
  SharedEvent called;  // Where the caller's stream was.
  SteadyClock::time_point overdue;
  Twins host_reads, host_writes;             // Unless it goes in pieces.
  at::Tensor flat;                           // Contiguous, on the device, if in pieces.
  std::vector<std::shared_ptr<Slot>> slots;  // By piece, if in pieces.
  std::vector<Trip> trips;
  // If it was queued ahead.
  bool ahead = false;
  at::Tensor host_flat;  // The twin of `flat`.
  at::Tensor words;      // int32[pieces], pinned: 1 when the network is done with it.
  std::vector<std::shared_ptr<c10::Event>> loaded;  // By piece.
  // Guarded by the line's lock.
  std::exception_ptr failure;
  uint32_t begun = 0, over = 0;
  bool all_begun = false, finished = false;
  int source = -1;
  SharedEvent done;

  at::Tensor piece_of(const at::Tensor& whole, uint32_t piece) const {
    const int64_t first = piece * per_piece();
    return whole.narrow(0, first, std::min(per_piece(), whole.numel() - first));
  }
  int64_t per_piece() const { return kPieceBytes / flat.element_size(); }
  uint32_t pieces() const {
    return static_cast<uint32_t>(
        std::max<int64_t>(1, (flat.numel() + per_piece() - 1) / per_piece()));
  }
  uint32_t* word(uint32_t piece) const {
    return static_cast<uint32_t*>(words.mutable_data_ptr()) + piece;
  }
};

}  // namespace sumcast_torch

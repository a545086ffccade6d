// What workers and servers say to each other: messages of the context's message layer.
//
//   worker -> server   plan    fixed size: what this round does, and how many rows each segment's
//                              body has. Every worker sends one to every server every round, rows
//                              or not: that is the marker that closes a round (design rule 5S.1).
//                      body    one per segment that has rows
//                        kStep    u64 keys[pull]   f32 or encoded gradients[push], of the oldest
//                        rows
//                                                  that this worker pulled and has not pushed, in
//                                                  that order; or, kNamed, of the u64 keys[push]
//                                                  that stand before all else
//                        kFetch   u64 keys[pull]
//                        kAssign  u64 keys[push]   f32 records[push]
//                      order   kSave, worker 0 only: which checkpoint to write
//   server -> worker   reply   one per segment of which rows were asked
//                        kStep    f32 or encoded rows[pull] (row_codec.h), as they are after all
//                                 workers' gradients
//                        kFetch   f32 records[pull]  with the optimiser's state
//                      receipt kSave, to worker 0: what was written, or why not
//                      ack     one per round but kAssign: all segments have committed it
//
// On the way back to an aggregator (P23) worker 0 marks a round, every ack of it carries the mark,
// and kMove is each worker's last word in the context that is left.
//
// Two levels of acknowledgement (P16): a reply says that a segment has this round's gradients and
// has moved its rows; the ack says so of all segments of the server, those that owe this worker
// nothing included. A worker ends a round when it has all acks, and begins one while at most
// `staleness` others are under way (P20): so no worker is ever more than staleness + 1 rounds ahead
// of another, and whoever has ended a round knows that all servers have committed it.
//
// In asynchronous jobs rounds are each worker's own (P21): a body is applied when it is there,
// reply and ack follow at once. Only kSave waits for all.
//
// The number of a round, counted anew in each context, travels as the messages' check: members that
// are in different rounds get an error instead of each other's rows. The number of a *step* (a
// round with gradients) is counted through all contexts, so that a server knows a step that it has
// committed when it is told it again. Little endian, as the machine is.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace sumcast::sparse {

enum class Task : uint32_t {
  kStep = 1,    ///< Push gradients, pull rows.
  kFetch = 2,   ///< Read rows with their state.
  kAssign = 3,  ///< Write rows with their state.
  kLeave = 4,   ///< This worker is done.
  kSave = 5,    ///< Write a part of a checkpoint.
  kMove = 6,    ///< This worker goes on in a better place (P23).
};

inline constexpr uint32_t kSegmentsMax = 256;

/// Of Plan::flags, for kStep.
enum PlanFlag : uint32_t {
  kDone = 1,   ///< This worker has finished the step, and only helps others.
  kNamed = 2,  ///< Bodies name the rows that they push: the server may not know them any more.
  kFresh = 4,  ///< What was pulled before and not pushed is forgotten.
  kKept = 8,   ///< The rows that are pulled will be pushed, behind those before them.
};

/// Of Plan::marks, worker 0's, and of Ack::marks, in the acks of that round to all workers.
inline constexpr uint32_t kReturnMark = 1;  ///< staleness + 1 rounds on, all go back (P23).

/// What may be on the way to a server from all workers together, and back: enough to keep its link
/// busy over a round trip, and twice as much overruns no queue before it (incast). Both ends hold
/// their streams to a worker's share of it, whatever travels; workers hold the segments of a
/// synchronous round to it.
inline constexpr size_t kServerWindowBytes = 256 << 10;
/// A worker's share of it.
constexpr size_t worker_window_bytes(uint32_t workers) { return kServerWindowBytes / workers; }

struct SegmentPlan {
  uint32_t push = 0;
  uint32_t pull = 0;
};

/// Sent as it lies in memory, cut behind the last segment.
struct Plan {
  Task task = Task::kStep;
  uint32_t round = 0;
  uint64_t step = 0;   ///< kStep: from 1; 0: this round pushes nothing.
  uint32_t flags = 0;  ///< Of PlanFlag.
  uint32_t marks = 0;
  float rate = 0;  ///< Of the optimizer in this step; equal on all workers.
  uint32_t reserved = 0;
  std::array<SegmentPlan, kSegmentsMax> segments{};
};
static_assert(std::is_trivially_copyable_v<Plan> && sizeof(Plan) == 32 + 8 * kSegmentsMax);
constexpr uint64_t plan_bytes(uint32_t segments) { return 32 + uint64_t{8} * segments; }

/// All segments of the server have committed the round.
struct Ack {
  uint32_t round = 0;
  uint32_t marks = 0;
};
static_assert(std::is_trivially_copyable_v<Ack> && sizeof(Ack) == 8);

/// Which part of a checkpoint a server is to write (manifest.h).
struct SaveOrder {
  uint32_t number = 0;
  uint32_t base = 0;      ///< Rows that moved since that checkpoint; 0: all that ever moved.
  uint32_t standing = 0;  ///< The directory's checkpoint at this moment; 0: none.
};
static_assert(std::is_trivially_copyable_v<SaveOrder> && sizeof(SaveOrder) == 12);

/// What a server wrote. Its file has the name that its number and server give it.
struct SaveReceipt {
  uint64_t rows = 0, bytes = 0;
  uint32_t crc = 0;
  uint32_t code = 0;             ///< An ErrorCode; 0: the file is there.
  std::array<char, 232> what{};  ///< Of the error, ended by a zero.
};
static_assert(std::is_trivially_copyable_v<SaveReceipt> && sizeof(SaveReceipt) == 256);

inline constexpr uint64_t kPlanTag = uint64_t{1} << 32;
constexpr uint64_t body_tag(uint32_t segment) { return (uint64_t{2} << 32) | segment; }
constexpr uint64_t reply_tag(uint32_t segment) { return (uint64_t{3} << 32) | segment; }
inline constexpr uint64_t kAckTag = uint64_t{4} << 32;
inline constexpr uint64_t kOrderTag = uint64_t{5} << 32;
inline constexpr uint64_t kReceiptTag = uint64_t{6} << 32;
inline constexpr uint64_t kScoutTag = uint64_t{7} << 32;  ///< Between members' scouts (scout.h).

}  // namespace sumcast::sparse

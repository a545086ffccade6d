// What workers and servers say to each other: messages of the context's message layer.
//
//   worker -> server   plan    fixed size: what this round does, and how many rows each segment's
//                              body has. Every worker sends one to every server every round, rows
//                              or not: that is the marker that closes a round (design rule 5S.1).
//                      body    one per segment that has rows
//                        kStep    u64 keys[pull]   f32 or encoded gradients[push], of the rows that
//                                                  this worker pulled last, in that order
//                        kFetch   u64 keys[pull]
//                        kAssign  u64 keys[push]   f32 records[push]
//   server -> worker   reply   one per segment of which rows were asked
//                        kStep    f32 rows[pull]     as they are after all workers' gradients
//                        kFetch   f32 records[pull]  with the optimiser's state
//
// The number of a round travels as the messages' check: members that are in different rounds get
// an error instead of each other's rows. Little endian, as the machine is.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

namespace sumcast::sparse {

enum class Task : uint32_t {
  kStep = 1,    ///< Push gradients, pull rows.
  kFetch = 2,   ///< Read rows with their state.
  kAssign = 3,  ///< Write rows with their state.
  kLeave = 4,   ///< This worker is done.
};

inline constexpr uint32_t kSegmentsMax = 256;

struct SegmentPlan {
  uint32_t push = 0;
  uint32_t pull = 0;
};

/// Sent as it lies in memory, cut behind the last segment.
struct Plan {
  Task task = Task::kStep;
  uint32_t round = 0;
  std::array<SegmentPlan, kSegmentsMax> segments{};
};
static_assert(std::is_trivially_copyable_v<Plan> && sizeof(Plan) == 8 + 8 * kSegmentsMax);
constexpr uint64_t plan_bytes(uint32_t segments) { return 8 + uint64_t{8} * segments; }

inline constexpr uint64_t kPlanTag = uint64_t{1} << 32;
constexpr uint64_t body_tag(uint32_t segment) { return (uint64_t{2} << 32) | segment; }
constexpr uint64_t reply_tag(uint32_t segment) { return (uint64_t{3} << 32) | segment; }

}  // namespace sumcast::sparse

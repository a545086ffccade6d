// What one worker's thread of a server works with. Inside the room only.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "sparse/server.h"

namespace sumcast::sparse {

/// A worker's plan, bodies and replies of one round. Its own thread writes all but the replies,
/// which the thread that applies a segment writes.
struct Server::Desk {
  struct Sheet {
    std::vector<uint64_t> body;  // Whole words: keys come first.
    std::vector<float> reply;
    std::optional<Work> receiving, replying;
  };
  uint32_t worker = 0;
  Plan plan;
  SaveOrder order;            // Of worker 0.
  std::vector<Sheet> sheets;  // By segment.

  uint64_t key_count(uint32_t segment) const {
    const SegmentPlan& rows = plan.segments[segment];
    return plan.task == Task::kAssign ? rows.push : rows.pull;
  }
  const std::byte* keys_at(uint32_t segment) const {
    return reinterpret_cast<const std::byte*>(sheets[segment].body.data());
  }
  const std::byte* rows_at(uint32_t segment) const {
    return keys_at(segment) + key_count(segment) * sizeof(uint64_t);
  }
};

}  // namespace sumcast::sparse

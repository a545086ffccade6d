// What one worker's thread of a server works with. Inside the room only.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "sparse/server.h"

namespace sumcast::sparse {

/// A worker's plan, bodies and replies of one round. Its own thread writes all but the replies,
/// which the thread that applies a segment writes.
struct Server::Paper {
  struct Sheet {
    std::vector<uint64_t> body;  // Whole words: keys come first.
    std::vector<std::byte> reply;
    std::optional<Work> receiving, replying;
  };
  uint32_t worker = 0;
  Plan plan;
  SaveOrder order;            // Of worker 0.
  std::vector<Sheet> sheets;  // By segment.

  bool has(PlanFlag flag) const { return (plan.flags & flag) != 0; }
  /// Keys of rows that it writes, or pushes gradients of; they stand first.
  uint64_t pushed_keys(uint32_t segment) const {
    const bool has_keys = plan.task == Task::kAssign || (plan.task == Task::kStep && has(kNamed));
    return has_keys ? plan.segments[segment].push : 0;
  }
  uint64_t key_count(uint32_t segment) const {
    return pushed_keys(segment) + plan.segments[segment].pull;
  }
  std::span<const uint64_t> keys(uint32_t segment) const {
    return std::span(sheets[segment].body).first(key_count(segment));
  }
  std::span<const uint64_t> to_push(uint32_t segment) const {
    return keys(segment).first(pushed_keys(segment));
  }
  std::span<const uint64_t> to_pull(uint32_t segment) const {
    return keys(segment).subspan(pushed_keys(segment));
  }
  /// What stands behind the keys.
  const std::byte* rows_at(uint32_t segment) const {
    return reinterpret_cast<const std::byte*>(sheets[segment].body.data() + key_count(segment));
  }
};

/// Papers of the rounds that are open, by RoundBook::place_of.
struct Server::Desk {
  uint32_t worker = 0;
  std::vector<Paper> papers;
  uint32_t begun = 0;  // Rounds; under the server's lock.
  Ack ack;             // As long as the message is under way.
  std::optional<Work> acking;
};

}  // namespace sumcast::sparse

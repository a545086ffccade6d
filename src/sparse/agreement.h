// Do all members of a group hold the same thing? One operation, of a hash.
#pragma once

#include <array>

#include "sumcast/sumcast.hpp"

namespace sumcast::sparse {

/// True on all members, or false on all members. Called by all of them.
inline Result<bool> same_on_all(Group& group, uint64_t hash) {
  const auto mine = static_cast<int64_t>(hash >> 2);  // So that its negative exists.
  std::array<int64_t, 2> both = {mine, -mine};
  auto done = group.all_reduce(std::span<int64_t>(both), Reduction::kMax);
  if (!done) return fail(done.error());
  return both[0] == mine && both[1] == -mine;
}

}  // namespace sumcast::sparse

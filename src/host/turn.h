// Waiting for one another in shared memory: a counter of arrivals that processes can sleep on.
//
//   word = 2 * arrivals + aborted
//
// Each rank that has done its part of something arrives; whoever needs the parts waits until enough
// have. Counters only grow (compared on a circle), nobody owns one, and nothing is ever locked: a
// process that dies simply does not arrive, and whoever waits for it is woken by the abort bit.
// That bit lies in the word itself, so that no sleeper can miss it between looking and sleeping.
//
// Fair where ranks outnumber cores: a waiter looks for a moment only, giving its core away between
// looks if it was told that cores are shared; then it sleeps in the kernel, on the one word it
// needs, and only the arrival that completes the count wakes anybody.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/time.h"

namespace sumcast::host {

/// What a wait ended with.
enum class Waited : uint8_t {
  kReached,  ///< All have arrived; what they wrote before is visible.
  kAborted,  ///< The team was aborted.
  kTimeout,  ///< The deadline has passed.
};

/// One counter; lives in the segment, all zero at the start.
struct alignas(64) Turn {
  std::atomic<uint32_t> word{0};
  std::atomic<uint32_t> sleepers{0};  ///< Only a hint: a crashed sleeper stays counted.
};
static_assert(sizeof(Turn) == 64);
static_assert(std::atomic<uint32_t>::is_always_lock_free);

/// How a waiter looks before it sleeps.
struct Looking {
  Duration span{0};     ///< For how long.
  bool yields = false;  ///< Ranks share cores: gives the core away between looks.
};

/// As ranks of a host look for each other: for a moment, since a neighbour that is about to arrive
/// is worth that much (sleeping and waking cost the same), and never longer than the process may
/// look for anything (SUMCAST_SPIN).
Looking looking_for(uint32_t ranks, uint32_t cores, Duration longest);

/// Adds one arrival; wakes sleepers if that makes `target` (all arrivals of the turn so far).
void arrive(Turn& turn, uint32_t target);

/// Waits until `target` arrivals were counted (mod 2^31), the team is aborted, or `deadline`. What
/// has been reached counts though the team was aborted since: what one rank completed all complete.
///
/// @param looking  before sleeping; by default not at all.
[[nodiscard]] Waited wait_for(Turn& turn, uint32_t target, Instant deadline,
                              const Looking& looking = {});

/// Sets the abort bit and wakes all who sleep. It stays set.
void abort(Turn& turn);

/// Cores that this process may run on.
uint32_t usable_cores();

}  // namespace sumcast::host

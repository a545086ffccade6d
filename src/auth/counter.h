// The send counter of a datagram: 64 bits in the nonce, its low 32 on the wire.
//
// The receiver takes the value nearest to the highest one it has accepted, so a datagram may be
// late or early by less than 2^31 others. It does not look for replays: a datagram that arrives
// twice is a matter of the core, which counts each worker once per slot phase.
//
// Keys are renewed (a new epoch) long before 2^48 datagrams, so 64 bits never wrap: at 10 million
// datagrams a second that is most of a year.
#pragma once

#include <algorithm>
#include <cstdint>

namespace sumcast::auth {

/// Restores one sender's counters. A value; for one thread.
class CounterUnwrap {
 public:
  /// The counter whose low half is `low` and which is nearest to the highest accepted one; never
  /// negative. Changes nothing, because `low` is a claim until the tag over it was verified.
  constexpr uint64_t unwrap(uint32_t low) const {
    const auto distance = static_cast<int32_t>(low - static_cast<uint32_t>(highest_));
    if (distance >= 0) return highest_ + static_cast<uint32_t>(distance);
    const uint64_t back = static_cast<uint64_t>(-static_cast<int64_t>(distance));
    // Before the first 2^32 there is nothing below zero to be near to.
    return back <= highest_ ? highest_ - back : highest_ - back + (uint64_t{1} << 32);
  }

  /// Notes a counter whose tag was verified.
  constexpr void accept(uint64_t counter) { highest_ = std::max(highest_, counter); }

  constexpr uint64_t highest() const { return highest_; }

 private:
  uint64_t highest_ = 0;
};

}  // namespace sumcast::auth

// Which keys this worker pushes often enough that others probably push them too.
//
// A table of small counters by hash of the key, halved every so many pushes; keys that share a
// counter are mistaken for one another, which costs a detour, no correctness. Each worker decides
// for itself: where a key is summed follows from the key alone.
//
// Pure. For one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ps/internal/kv_pairs.h"

namespace sumcast::ps {

class Heat {
 public:
  /// @param least  so often a key was pushed lately before it is hot; 0: all keys are.
  explicit Heat(unsigned least = 1) : least_(least) {}

  /// Counts a push of this key; true if it is hot.
  bool touch(uint64_t key) {
    if (least_ == 0) return true;
    if (counts_.empty()) counts_.resize(kCounters);
    uint8_t& count = counts_[::ps::internal::HashedServer(key, kCounters)];
    const bool is_hot = count >= least_;
    if (count < UINT8_MAX) ++count;
    return is_hot;
  }

  /// A push is over.
  void end_push() {
    if (++pushes_ % kHalfLife != 0) return;
    for (uint8_t& count : counts_) count = static_cast<uint8_t>(count / 2);
  }

 private:
  static constexpr size_t kCounters = 1 << 20;
  static constexpr uint64_t kHalfLife = 64;  ///< Pushes to one server.

  unsigned least_;
  uint64_t pushes_ = 0;
  std::vector<uint8_t> counts_;
};

}  // namespace sumcast::ps

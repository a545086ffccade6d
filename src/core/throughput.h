// What a byte takes on a link: the inverse of the highest rate at which bytes have passed.
//
// Whoever can move fewer bytes with more work wants to know what a byte is worth. A rate that was
// once reached proves that the link carries it; a lower one proves nothing, since who moves less,
// or was busy otherwise, is slower too. So the highest counts.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace sumcast::core {

/// Single-threaded; times come from the caller.
class Throughput {
 public:
  /// Rates are taken over this: less, and they are those of the buffers in between.
  static constexpr Duration kSpan = std::chrono::milliseconds(10);
  static constexpr uint32_t kBatchesMin = 4;
  /// So many spans before anything is said: the first may have waited for somebody.
  static constexpr uint32_t kSpansMin = 4;

  /// There was nothing to move before this: the span begins anew.
  void on_pause() { batches_ = 0; }
  /// A batch of `bytes` has passed.
  void on_batch(Instant now, uint64_t bytes) {
    if (batches_++ == 0) {
      since_ = now;  // It passed before the span began: only what follows takes its time.
      bytes_ = 0;
      return;
    }
    bytes_ += bytes;
    const Duration span = now - since_;
    if (span < kSpan || batches_ < kBatchesMin) return;
    highest_ = std::max(highest_, static_cast<double>(bytes_) / static_cast<double>(span.count()));
    ++spans_;
    since_ = now;
    batches_ = 1;
    bytes_ = 0;
  }
  /// Nanoseconds; 0 as long as too little is known.
  double ns_per_byte() const { return spans_ < kSpansMin || highest_ == 0 ? 0 : 1 / highest_; }

 private:
  Instant since_{};
  uint64_t bytes_ = 0;
  uint32_t batches_ = 0, spans_ = 0;
  double highest_ = 0;  // Bytes per nanosecond.
};

}  // namespace sumcast::core

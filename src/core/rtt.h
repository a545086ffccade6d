// Round-trip estimate and retransmission timeout of one path (RFC 6298, with its own floor).
//
// Samples come from pings (P9) and from results of contributions sent once. The second kind also
// contains the wait for slower members, which is right for a timeout: it must not fire while the
// group merely waits.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace sumcast::core {

class RttEstimator {
 public:
  struct Config {
    Duration rto_min = std::chrono::milliseconds(3);  ///< Timer granularity, scheduling noise.
    Duration rto_max = std::chrono::milliseconds(500);
    Duration silence_min = std::chrono::milliseconds(2);
    Duration rto_initial = std::chrono::milliseconds(50);
  };
  explicit RttEstimator(const Config& config) : config_(config) {}
  RttEstimator() : RttEstimator(Config{}) {}

  void on_sample(Duration rtt) {
    if (!has_sample_) {
      smoothed_ = rtt;
      variation_ = rtt / 2;
      has_sample_ = true;
    } else {
      const Duration error = rtt > smoothed_ ? rtt - smoothed_ : smoothed_ - rtt;
      variation_ += (error - variation_) / 4;
      smoothed_ += (rtt - smoothed_) / 8;
    }
    least_ = std::min(least_, rtt);
  }

  bool has_sample() const { return has_sample_; }
  /// How long a path that owes results, while nothing more can be sent on it, may be silent before
  /// it is probed: the last results of an operation have nothing behind them that would show a
  /// loss.
  Duration silence() const { return std::max(config_.silence_min, smoothed_ / 4); }
  /// The least age of a contribution at which such a silence says anything about it: before a round
  /// trip is over nothing could have been heard.
  Duration overdue() const { return (has_sample_ ? least_ : Duration{0}) + silence(); }
  /// What a round trip takes for sure. The least one may have been a wait for a slow member, so it
  /// is not believed beyond half a timeout.
  Duration surely() const { return std::min(least_, rto() / 2); }
  Duration smoothed() const { return smoothed_; }
  /// Duration::max() before the first sample.
  Duration least() const { return least_; }
  Duration rto() const {
    if (!has_sample_) return config_.rto_initial;
    // Round trips that are all alike make the variation vanish, while a result may still stand in a
    // queue that has just filled: two and a half round trips are never premature there (sim/).
    const Duration patience = std::max(smoothed_ + 4 * variation_, smoothed_ * 5 / 2);
    return std::clamp(patience, config_.rto_min, config_.rto_max);
  }

 private:
  Config config_;
  Duration smoothed_{}, variation_{};
  Duration least_ = Duration::max();
  bool has_sample_ = false;
};

}  // namespace sumcast::core

// When to look again for an aggregator that went away (P23).
//
//   lost ── hold-off ── look ── nobody there: look again, at twice the interval each time
//                         └──── back on it ── lost again soon: the next hold-off is twice as long
//                                        └─── lost after a long while: the first hold-off again
//
// A daemon that flaps costs a failover each time; so the share of the time that a job spends on
// failovers falls by half with each of them.
//
// Pure and single-threaded: `now` comes in and never goes back.
#pragma once

#include <algorithm>
#include <optional>

#include "base/time.h"

namespace sumcast::sparse {

/// Longest hold-off: of a daemon that does not stay.
inline constexpr Duration kHoldOffMax = std::chrono::minutes(5);
/// Longest interval between looks: one that is repaired tonight is found within so long.
inline constexpr Duration kLookIntervalMax = std::chrono::seconds(30);
/// Who stays for so many hold-offs does not flap.
inline constexpr int kSettledHoldOffs = 8;

class ReturnPace {
 public:
  /// @param first  hold-off after a first loss, above 0.
  explicit ReturnPace(Duration first) : first_(first), hold_off_(first) {}

  /// The aggregator is lost, and the job goes on elsewhere.
  void on_away(Instant now) {
    if (returned_at_ && now - *returned_at_ < kSettledHoldOffs * hold_off_) {
      lengthen();
    } else if (returned_at_) {
      hold_off_ = first_;
    }
    returned_at_.reset();
    interval_ = first_;
    next_look_ = now + hold_off_;
  }
  /// Nobody was there.
  void on_silence(Instant now) {
    next_look_ = now + interval_;
    interval_ = std::min(2 * interval_, std::max(first_, kLookIntervalMax));
  }
  /// It answered, and not all members got in.
  void on_refusal(Instant now) {
    lengthen();
    next_look_ = now + hold_off_;
  }
  /// All members are back on it.
  void on_return(Instant now) { returned_at_ = now; }
  /// They are on one that was lost before, and a better one is still to be looked for.
  void on_better(Instant now) {
    returned_at_ = now;
    interval_ = first_;
    next_look_ = now + hold_off_;
  }

  Instant next_look() const { return next_look_; }
  Duration hold_off() const { return hold_off_; }

 private:
  void lengthen() { hold_off_ = std::min(2 * hold_off_, std::max(first_, kHoldOffMax)); }

  Duration first_, hold_off_, interval_{0};
  Instant next_look_{};
  std::optional<Instant> returned_at_;
};

}  // namespace sumcast::sparse

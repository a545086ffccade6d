// How many datagrams a worker keeps in flight on one path (P11).
//
// Three bounds, the least of which holds:
//
//   buffers   what the receive buffers at both ends surely hold; fixed when the path is proved
//   delay     the bandwidth-delay product, with room for a queue of kQueueTarget: the highest rate
//             at which results came, times the least round trip plus that. More would only stand in
//             a queue, in front of other people's packets
//   loss      shrinks by three tenths when more than kLossTolerated of either direction is lost,
//             grows by a few datagrams per epoch while it is not
//
// Loss alone is no sign of congestion below the tolerance: a path that loses one datagram in a
// hundred at random keeps its window, since here only the lost ones are sent again. (A method in
// the manner of BBR: Cardwell et al., Communications of the ACM 60(2), 2017, whose second version
// tolerates 2 %.) Delay is bounded by an absolute target and not by a multiple of the round trip,
// so that a flow that fills the same queue, as TCP does, cannot push this one out.
//
// Results answer contributions one for one, so one window governs both directions. A rank whose
// window is small holds the others back through the slots they share; they need no signal.
#pragma once

#include <cstdint>

#include "base/time.h"

namespace sumcast::core {

struct CongestionConfig {
  uint32_t limit = 1;   ///< Datagrams that the buffers hold, >= 1.
  uint32_t floor = 16;  ///< Never below this (or `limit`, if that is less).
  uint32_t start = 64;  ///< Doubled each window until something is lost.
};

/// Single-threaded; times come from the caller.
class CongestionWindow {
 public:
  /// A self-made queue longer than this helps nobody, shorter ones cost rate on bursty links.
  static constexpr Duration kQueueTarget = std::chrono::milliseconds(8);
  /// Results per look at the losses. Many, so that a random loss of 1 %, lost requests for repeats
  /// included, does not seem one of 3 %.
  static constexpr uint32_t kEpoch = 1024;
  static constexpr uint32_t kLossTolerated = kEpoch * 30 / 1000;
  /// So many lost need no full epoch.
  static constexpr uint32_t kLossAlarm = kEpoch * 5 / 100;

  explicit CongestionWindow(const CongestionConfig& config);
  CongestionWindow() : CongestionWindow(CongestionConfig{}) {}

  /// Datagrams that may be in flight.
  uint32_t size() const { return size_ < bound_ ? size_ : bound_; }
  uint32_t limit() const { return config_.limit; }

  /// A result came. @param least_round_trip of this path so far (RttEstimator::least()).
  void on_result(Instant now, Duration least_round_trip);
  /// More could have been sent, but for the window. Only then do results show what the path
  /// carries.
  void on_limited() { limited_ = true; }
  /// `datagrams` contributions had to be sent again.
  void on_contributions_lost(uint32_t datagrams);
  /// `datagrams` results were missed.
  void on_results_lost(uint32_t datagrams);

 private:
  void end_epoch(bool lossy);
  void measure_rate(Instant now, Duration least_round_trip);

  CongestionConfig config_;
  uint32_t size_;
  uint32_t bound_;         ///< By buffers and delay.
  bool starting_ = true;   ///< Nothing was lost yet: the window doubles.
  bool settling_ = false;  ///< The epoch in which losses of the larger window still come in.
  uint32_t since_growth_ = 0;
  uint32_t results_ = 0, contributions_lost_ = 0, results_lost_ = 0;  ///< Of this epoch.
  bool limited_ = false;                                              ///< Since rate_since_.
  double peak_per_ns_ = 0;
  uint32_t rate_results_ = 0;
  Instant rate_since_{}, last_result_at_{};
};

}  // namespace sumcast::core

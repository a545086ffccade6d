#include "core/congestion.h"

#include <algorithm>

#include "base/assert.h"

namespace sumcast::core {
namespace {

/// Rates are taken over this: results come in bursts, and a burst by itself has any rate.
constexpr Duration kRateSpan = std::chrono::milliseconds(10);
constexpr uint32_t kGrowth = 4;  ///< Datagrams per window of results.

}  // namespace

CongestionWindow::CongestionWindow(const CongestionConfig& config)
    : config_(config), bound_(config.limit) {
  SUMCAST_ASSERT(config.limit >= 1 && config.floor >= 1 && config.start >= 1);
  config_.floor = std::min(config.floor, config.limit);
  size_ = std::clamp(config.start, config_.floor, config.limit);
}

void CongestionWindow::on_result(Instant now, Duration least_round_trip) {
  measure_rate(now, least_round_trip);
  if (++since_growth_ >= size()) {
    since_growth_ = 0;
    if (!settling_) size_ = std::min(config_.limit, starting_ ? 2 * size_ : size_ + kGrowth);
  }
  if (++results_ >= kEpoch) {
    end_epoch(std::max(contributions_lost_, results_lost_) > kLossTolerated);
  }
}

void CongestionWindow::on_contributions_lost(uint32_t datagrams) {
  contributions_lost_ += datagrams;
  if (contributions_lost_ > kLossAlarm) end_epoch(true);
}

void CongestionWindow::on_results_lost(uint32_t datagrams) {
  results_lost_ += datagrams;
  if (results_lost_ > kLossAlarm) end_epoch(true);
}

void CongestionWindow::end_epoch(bool lossy) {
  results_ = contributions_lost_ = results_lost_ = 0;
  if (lossy) starting_ = false;
  if (lossy && !settling_) {
    // From what was in force, not from what might have been allowed.
    size_ = std::max(config_.floor, size() * 7 / 10);
    settling_ = true;
  } else {
    settling_ = false;
  }
}

void CongestionWindow::measure_rate(Instant now, Duration least_round_trip) {
  if (now - last_result_at_ > kRateSpan) {  // A pause between operations: not the path's rate.
    rate_since_ = now;
    rate_results_ = 0;
    limited_ = false;
  }
  last_result_at_ = now;
  ++rate_results_;
  const Duration span = now - rate_since_;
  if (span < kRateSpan) return;
  const bool limited = limited_;
  const double rate = rate_results_ / static_cast<double>(span.count());
  rate_results_ = 0;
  rate_since_ = now;
  limited_ = false;
  // Otherwise the program set the pace, and the rate says nothing about the path.
  if (!limited || rate <= peak_per_ns_ || least_round_trip == Duration::max()) return;
  peak_per_ns_ = rate;
  const double held = rate * static_cast<double>((least_round_trip + kQueueTarget).count());
  bound_ =
      held < config_.limit ? std::max(config_.floor, static_cast<uint32_t>(held)) : config_.limit;
}

}  // namespace sumcast::core

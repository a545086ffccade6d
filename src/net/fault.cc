#include "net/fault.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/assert.h"

namespace sumcast::net {

Result<void> FaultPlan::validate() const {
  const struct {
    const char* name;
    double value;
  } kProbabilities[] = {{"loss", loss}, {"duplicate", duplicate}, {"reorder", reorder}};
  for (const auto& p : kProbabilities) {
    if (p.value >= 0 && p.value <= 1) continue;  // Written so that NaN fails.
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{} is {}, but a probability lies between 0 and 1", p.name, p.value));
  }
  if (delay < Duration{0} || reorder_span <= Duration{0}) {
    return fail(ErrorCode::kInvalidArgument, "a fault plan's times must be positive");
  }
  return {};
}

FaultStage::FaultStage(const FaultPlan& plan, uint32_t held_max, uint32_t datagram_bytes_max)
    : plan_(plan), active_(plan.active()), prng_(plan.seed), slot_bytes_(datagram_bytes_max) {
  SUMCAST_ASSERT(plan.validate().has_value());
  SUMCAST_ASSERT(held_max > 0);
  if (!active_) return;
  memory_ = std::make_unique<std::byte[]>(size_t{held_max} * slot_bytes_);
  held_.reserve(held_max);
  free_slots_.resize(held_max);
  for (uint32_t i = 0; i < held_max; ++i) free_slots_[i] = held_max - 1 - i;
}

/// True if the datagram arrives now. What must come later is copied.
bool FaultStage::decide(std::span<const std::byte> datagram, uint32_t origin, Instant now) {
  // All three are drawn for each datagram, so that a fate does not shift those that follow.
  const bool lost = prng_.chance(plan_.loss);
  const bool doubled = prng_.chance(plan_.duplicate);
  const bool reordered = prng_.chance(plan_.reorder);
  const Duration double_lag = draw_lag(), reorder_lag = draw_lag();
  if (lost) {
    ++counters_.dropped;
    return false;
  }
  const Instant arrival = now + plan_.delay;
  bool arrives_now = false;
  if (!reordered && plan_.delay == Duration{0}) {
    arrives_now = true;
  } else if (!hold(datagram, origin, reordered ? arrival + reorder_lag : arrival)) {
    ++counters_.overrun;
    return false;
  } else if (reordered) {
    ++counters_.reordered;
  }
  if (doubled && hold(datagram, origin, arrival + double_lag)) ++counters_.duplicated;
  return arrives_now;
}

Duration FaultStage::draw_lag() {
  return Duration{
      1 + static_cast<int64_t>(prng_.below(static_cast<uint64_t>(plan_.reorder_span.count())))};
}

bool FaultStage::hold(std::span<const std::byte> datagram, uint32_t origin, Instant due) {
  if (free_slots_.empty() || datagram.size() > slot_bytes_) return false;
  const uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  if (!datagram.empty()) std::memcpy(slot_data(slot), datagram.data(), datagram.size());
  held_.push_back({due, next_order_++, slot, origin, static_cast<uint32_t>(datagram.size())});
  std::push_heap(held_.begin(), held_.end());
  return true;
}

FaultStage::Held FaultStage::pop() {
  std::pop_heap(held_.begin(), held_.end());
  const Held next = held_.back();
  held_.pop_back();
  return next;
}

}  // namespace sumcast::net

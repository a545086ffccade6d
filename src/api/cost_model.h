// What an operation costs on each route, from two measurements per route: time = fixed + bytes /
// rate.
//
// All ranks must choose alike, so what they choose by is the maximum over ranks of what each
// measured, reduced by an all-reduce: the same bits everywhere (docs/numerics.md).
#pragma once

#include <array>
#include <cstdint>

namespace sumcast::api {

/// Seconds for a small and for a large operation, as measured; the same on all ranks.
struct RouteCost {
  double small_s = 0, large_s = 0;
};

class CostModel {
 public:
  /// Bytes of the two operations that are measured.
  static constexpr uint64_t kSmallBytes = 8;
  static constexpr uint64_t kLargeBytes = uint64_t{1} << 20;

  void set(RouteCost aggregator, RouteCost direct) {
    costs_ = {aggregator, direct};
    measured_ = true;
  }
  bool measured() const { return measured_; }

  /// Is the way through the aggregator expected to be the faster one for this size?
  bool prefers_aggregator(uint64_t bytes) const {
    return expected_s(costs_[0], bytes) <= expected_s(costs_[1], bytes);
  }
  static double expected_s(const RouteCost& cost, uint64_t bytes) {
    const double slope = (cost.large_s - cost.small_s) / static_cast<double>(kLargeBytes);
    const double per_byte = slope > 0 ? slope : 0;
    return cost.small_s + per_byte * static_cast<double>(bytes);
  }

 private:
  std::array<RouteCost, 2> costs_{};
  bool measured_ = false;
};

}  // namespace sumcast::api

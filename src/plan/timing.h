// How long a training step takes, given what computing and summing take: the timing models.
//
//   sync       compute, sum, update, one after the other
//   overlap    sums of buckets start as backward completes them (what PyTorch's DDP does)
//   priority   the same, the layers that the next forward needs first going first; the next forward
//              waits for each layer's own sum
//   pipe K     the sum of step t travels under the computing of the K - 1 steps after it:
//              max(compute, occupancy, (compute + latency) / K)
//
// Where computing and communication share cores, each slows the other: a sum takes `drag` times as
// long while its ranks compute, and takes `stolen` seconds from their computing.
//
//   async      every worker exchanges with one server on its own
//
// overlap and priority are played through layer by layer on one link, because their closed forms
// are bounds only. Pure; times are seconds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "plan/varying.h"

namespace sumcast::plan {

enum class Schedule : uint8_t { kSync, kOverlap, kPriority, kPipe, kAsync };

/// "sync", "overlap", "priority", "pipe", "async".
std::string_view name_of(Schedule schedule);

/// One layer's share of a step, in forward order.
struct LayerShape {
  double bytes = 0;  ///< Of its gradient, as f32.
  double forward_s = 0;
  double backward_s = 0;
};

/// What a worker computes in a step.
struct StepShape {
  std::vector<LayerShape> layers;  ///< At least one.
  double update_s = 0;             ///< The optimiser's.

  double bytes() const;
  double forward_s() const;
  double backward_s() const;
  double compute_s() const { return forward_s() + backward_s() + update_s; }
};

/// A model of which only totals are known, as `layers` equal layers. A third of computing is taken
/// for forward, the rest for backward, unless `forward_share` (0..1) says otherwise.
StepShape even_step(double bytes, double compute_s, int layers = 16,
                    double forward_share = 1.0 / 3);

/// Bytes that a bucket collects before its sum starts; DDP's default is 25 MiB.
inline constexpr double kBucketBytes = 25.0 * 1024 * 1024;

/// Consecutive layers, last layer first, whose gradients are summed in one operation.
struct Bucket {
  size_t first = 0;  ///< Its lowest layer, in forward order ...
  size_t last = 0;   ///< ... and its highest; it is ready when `first` has gone backward.
  double bytes = 0;
};
/// Buckets in the order in which backward completes them, each closed at `bucket_bytes` or more.
std::vector<Bucket> buckets_of(const StepShape& step, double bucket_bytes = kBucketBytes);

/// What one sum of so many bytes takes on the link.
struct LinkTime {
  double latency_s = 0;
  double occupancy_s = 0;
  double drag = 1;    ///< How many times as long it takes while the ranks compute, at least 1.
  double late_s = 0;  ///< What it comes later then, beyond the drag.
};
using LinkFn = std::function<LinkTime(double bytes)>;

/// One step in the steady state of overlap or priority.
struct Overlapped {
  double step_s = 0;
  /// Share of the link's busy time that lies under computing, 0..1.
  double hidden_share = 0;
  /// Indices into buckets_of(), in the order in which the link serves them: with priority all ranks
  /// issue their sums in this one order.
  std::vector<size_t> order;
};
/// @param priority  buckets that are ready are served lowest layer first instead of in order of
///                  readiness, and the next forward starts before all have arrived.
Overlapped overlap_step(const StepShape& step, const LinkFn& link, bool priority,
                        double bucket_bytes = kBucketBytes);

/// max(compute, occupancy, (compute + latency) / K), K at least 1; K = 1 is compute + latency.
/// Where steps vary, what varying.h makes of the three.
/// @param stolen_s  what computing takes longer if a whole sum runs beside it; sum.drag is what the
///                  sum then takes longer. What is left of it behind computing goes undisturbed.
double pipelined_step_s(double compute_s, LinkTime sum, uint32_t width, double stolen_s = 0,
                        const Variation& variation = {});

/// The smallest K that hides a sum's whole latency: 1 + ceil(latency / compute).
uint32_t hiding_width(double compute_s, double latency_s);

}  // namespace sumcast::plan

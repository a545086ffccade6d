#include "plan/timing.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/assert.h"

namespace sumcast::plan {
namespace {

/// When each bucket's gradients are complete, counted from the start of backward.
std::vector<double> ready_times(const StepShape& step, const std::vector<Bucket>& buckets) {
  std::vector<double> times;
  double now = 0;
  size_t layer = step.layers.size();
  for (const Bucket& bucket : buckets) {
    while (layer > bucket.first) now += step.layers[--layer].backward_s;
    times.push_back(now);
  }
  return times;
}

struct Served {
  std::vector<double> done;  ///< By bucket, from the start of backward.
  std::vector<size_t> order;
  double busy_s = 0;
  double hidden_s = 0;  ///< Of busy_s, what lies before `backward_s`.
};

/// When `work_s` begun at `start` is done, if it is dragged until `loaded_until`.
double dragged_end(double start, double work_s, double drag, double loaded_until) {
  const double loaded = std::clamp(loaded_until - start, 0.0, work_s * drag);
  return start + loaded + (work_s - loaded / drag);
}

/// One link serves buckets one after the other; it takes what is ready, else waits.
Served serve(const std::vector<Bucket>& buckets, const std::vector<double>& ready,
             const LinkFn& link, bool priority, double backward_s) {
  Served served;
  served.done.resize(buckets.size());
  std::vector<bool> taken(buckets.size());
  double free_at = 0;
  for (size_t turn = 0; turn < buckets.size(); ++turn) {
    std::optional<size_t> next, soonest;
    for (size_t b = 0; b < buckets.size(); ++b) {
      if (taken[b]) continue;
      if (!soonest) soonest = b;  // ready[] rises with b.
      if (ready[b] > free_at) break;
      if (!next || priority) next = b;  // The last one that is ready has the lowest layers.
    }
    const size_t chosen = next.value_or(*soonest);
    taken[chosen] = true;
    served.order.push_back(chosen);
    const LinkTime time = link(buckets[chosen].bytes);
    const double start = std::max(free_at, ready[chosen]);
    served.done[chosen] = dragged_end(start, time.latency_s, time.drag, backward_s);
    free_at = dragged_end(start, time.occupancy_s, time.drag, backward_s);
    served.busy_s += free_at - start;
    served.hidden_s += std::clamp(backward_s - start, 0.0, free_at - start);
  }
  return served;
}

}  // namespace

std::string_view name_of(Schedule schedule) {
  switch (schedule) {
    case Schedule::kSync:
      return "sync";
    case Schedule::kOverlap:
      return "overlap";
    case Schedule::kPriority:
      return "priority";
    case Schedule::kPipe:
      return "pipe";
    case Schedule::kAsync:
      return "async";
  }
  return "?";
}

double StepShape::bytes() const {
  return std::accumulate(layers.begin(), layers.end(), 0.0,
                         [](double sum, const LayerShape& layer) { return sum + layer.bytes; });
}
double StepShape::forward_s() const {
  return std::accumulate(layers.begin(), layers.end(), 0.0,
                         [](double sum, const LayerShape& layer) { return sum + layer.forward_s; });
}
double StepShape::backward_s() const {
  return std::accumulate(
      layers.begin(), layers.end(), 0.0,
      [](double sum, const LayerShape& layer) { return sum + layer.backward_s; });
}

StepShape even_step(double bytes, double compute_s, int layers, double forward_share) {
  SUMCAST_ASSERT(layers >= 1);
  SUMCAST_ASSERT(forward_share >= 0 && forward_share <= 1);
  const double count = layers;
  const LayerShape layer{bytes / count, compute_s * forward_share / count,
                         compute_s * (1 - forward_share) / count};
  return {std::vector<LayerShape>(static_cast<size_t>(layers), layer), 0};
}

std::vector<Bucket> buckets_of(const StepShape& step, double bucket_bytes) {
  SUMCAST_ASSERT(!step.layers.empty());
  std::vector<Bucket> buckets;
  Bucket open{0, step.layers.size() - 1, 0};
  for (size_t layer = step.layers.size(); layer-- > 0;) {
    open.bytes += step.layers[layer].bytes;
    open.first = layer;
    if (open.bytes < bucket_bytes && layer > 0) continue;
    buckets.push_back(open);
    if (layer > 0) open = {0, layer - 1, 0};
  }
  return buckets;
}

Overlapped overlap_step(const StepShape& step, const LinkFn& link, bool priority,
                        double bucket_bytes) {
  const std::vector<Bucket> buckets = buckets_of(step, bucket_bytes);
  const std::vector<double> ready = ready_times(step, buckets);
  const double backward_s = step.backward_s();
  const Served served = serve(buckets, ready, link, priority, backward_s);
  Overlapped result;
  result.order = served.order;
  const double last = *std::max_element(served.done.begin(), served.done.end());
  if (!priority) {
    result.step_s = step.forward_s() + std::max(backward_s, last) + step.update_s;
    result.hidden_share = served.busy_s > 0 ? served.hidden_s / served.busy_s : 1;
    return result;
  }
  // Forward of the next step starts with backward's end and waits, layer by layer, for its bucket;
  // the update goes with the layers. In the steady state a step is what lies between two starts of
  // backward.
  std::vector<double> arrival(step.layers.size());
  for (size_t b = 0; b < buckets.size(); ++b) {
    for (size_t layer = buckets[b].first; layer <= buckets[b].last; ++layer) {
      arrival[layer] = served.done[b];
    }
  }
  double now = backward_s, waited = 0;
  for (size_t layer = 0; layer < step.layers.size(); ++layer) {
    const double update =
        step.update_s * (step.bytes() > 0 ? step.layers[layer].bytes / step.bytes() : 0);
    waited += std::max(0.0, arrival[layer] - now);
    now = std::max(now, arrival[layer]) + update + step.layers[layer].forward_s;
  }
  result.step_s = now;
  result.hidden_share = served.busy_s > 0 ? std::clamp(1 - waited / served.busy_s, 0.0, 1.0) : 1;
  return result;
}

double pipelined_step_s(double compute_s, LinkTime sum, uint32_t width, double stolen_s,
                        const Variation& variation) {
  SUMCAST_ASSERT(width >= 1);
  SUMCAST_ASSERT(sum.drag >= 1);
  if (width == 1) return compute_s + sum.latency_s;
  const double beside = std::max(sum.occupancy_s * sum.drag, stolen_s);
  double busy = compute_s + stolen_s, occupancy = beside;
  if (beside > busy) {
    // Computing ends first: so much of the sum was done beside it, at the price of as much of what
    // it steals, and the rest finds the cores free.
    busy = compute_s * beside / (beside - stolen_s);
    occupancy = busy + (1 - busy / beside) * sum.occupancy_s;
  }
  const double latency = sum.latency_s + sum.occupancy_s * (sum.drag - 1) + sum.late_s;
  if (variation.compute > 0 || variation.sum > 0) {
    return played_step_s(busy, occupancy, latency, width, variation);
  }
  return std::max({busy, occupancy, (busy + latency) / width});
}

uint32_t hiding_width(double compute_s, double latency_s) {
  SUMCAST_ASSERT(compute_s > 0);
  return 1 + static_cast<uint32_t>(std::ceil(latency_s / compute_s));
}

}  // namespace sumcast::plan

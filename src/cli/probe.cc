#include "cli/probe.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/assert.h"
#include "plan/fit.h"
#include "runtime/clock.h"

namespace sumcast::cli {
namespace {

using plan::Collective;

double seconds_since(Instant start) {
  return std::chrono::duration<double>(runtime::monotonic_now() - start).count();
}

class Probe {
 public:
  Probe(Group& group, const ProbePlan& plan)
      : group_(group), plan_(plan), values_(plan.large_bytes / sizeof(float), 1.0f) {}

  Result<Probed> run() {
    Probed result;
    plan::Calibration& calibration = result.calibration;
    std::vector<double> scatter;
    const Result<std::vector<double>> alone = compute_times(std::nullopt);
    if (!alone) return fail(alone.error());
    plan::Spread computing = plan::spread_of(*alone);
    for (const auto& pair : plan_.pairs) {
      Result<plan::MeasuredCost> line = measure(pair, computing.median, scatter);
      if (!line) return fail(line.error());
      calibration.measured[pair] = *line;
    }
    // One all-reduce of a few bytes is two messages on the shortest way.
    const Result<plan::Spread> tiny = time_of(plan_.pairs.front(), sizeof(float));
    if (!tiny) return fail(tiny.error());
    std::array<double, 4> shared = {computing.median, computing.relative_deviation,
                                    *std::max_element(scatter.begin(), scatter.end()),
                                    tiny->median / 2};
    if (auto agreed = slowest(shared); !agreed) return fail(agreed.error());
    result.compute_s = shared[0];
    calibration.compute_jitter = shared[1];
    calibration.network_jitter = shared[2];
    calibration.alpha_s = shared[3];
    const plan::MeasuredCost& first = calibration.measured.at(plan_.pairs.front());
    calibration.up_s_per_byte = calibration.down_s_per_byte = first.per_byte_s;
    return result;
  }

 private:
  Call call_for(std::pair<Collective, WireFormat> pair) const {
    return {algorithm_of(pair.first), pair.second, {}};
  }

  Result<plan::MeasuredCost> measure(std::pair<Collective, WireFormat> pair, double compute_s,
                                     std::vector<double>& scatter) {
    const Result<plan::Spread> small = time_of(pair, plan_.small_bytes);
    if (!small) return fail(small.error());
    const Result<plan::Spread> large = time_of(pair, plan_.large_bytes);
    if (!large) return fail(large.error());
    scatter.push_back(large->relative_deviation);
    const Result<std::vector<double>> beside = compute_times(call_for(pair));
    if (!beside) return fail(beside.error());
    const double slowed = plan::spread_of(*beside).median;
    std::array<double, 2> times = {small->median, large->median};
    if (auto agreed = slowest(times); !agreed) return fail(agreed.error());
    // A mean over ranks: the largest of several small differences would be noise alone.
    std::array<double, 1> lost = {slowed - compute_s};
    if (auto agreed = group_.all_reduce(std::span<double>(lost), Reduction::kAvg); !agreed) {
      return fail(agreed.error());
    }
    const std::array<plan::SizeSample, 2> samples = {
        plan::SizeSample{static_cast<double>(plan_.small_bytes), times[0]},
        plan::SizeSample{static_cast<double>(plan_.large_bytes), times[1]}};
    plan::MeasuredCost line = plan::line_through(samples);
    // What of the tensor moved while computing.
    const double moved = std::min(1.0, (compute_s + lost[0]) / std::max(times[1], 1e-9));
    const double bytes = static_cast<double>(plan_.large_bytes) * std::max(moved, 0.01);
    line.stolen_per_byte_s = std::max(0.0, lost[0]) / bytes;
    return line;
  }

  Result<plan::Spread> time_of(std::pair<Collective, WireFormat> pair, uint64_t bytes) {
    std::vector<double> times;
    const Call call = call_for(pair);
    for (int i = 0; i <= plan_.repeats; ++i) {
      if (auto met = group_.barrier(); !met) return fail(met.error());
      const Instant start = runtime::monotonic_now();
      auto done =
          group_.all_reduce(std::span(values_).first(bytes / sizeof(float)), Reduction::kAvg, call);
      if (!done) return fail(done.error());
      if (i > 0) times.push_back(seconds_since(start));
    }
    return plan::spread_of(std::move(times));
  }

  /// Times of plan.compute, alone or with an all-reduce under way from its start.
  Result<std::vector<double>> compute_times(std::optional<Call> call) {
    std::vector<double> times;
    if (!plan_.compute) return std::vector<double>{0};
    for (int i = 0; i <= plan_.repeats; ++i) {
      if (auto met = group_.barrier(); !met) return fail(met.error());
      Work work;
      if (call) {
        auto begun = group_.all_reduce_async(values_.data(), values_.data(), values_.size(),
                                             ElementType::kF32, Reduction::kAvg, *call);
        if (!begun) return fail(begun.error());
        work = std::move(*begun);
      }
      const Instant start = runtime::monotonic_now();
      plan_.compute();
      const double time = seconds_since(start);
      if (call) {
        if (auto done = work.wait(); !done) return fail(done.error());
      }
      if (i > 0) times.push_back(time);
    }
    return times;
  }

  Result<void> slowest(std::span<double> values) {
    return group_.all_reduce(values, Reduction::kMax);
  }

  Group& group_;
  const ProbePlan& plan_;
  std::vector<float> values_;
};

}  // namespace

Algorithm algorithm_of(Collective collective) {
  switch (collective) {
    case Collective::kInNetwork:
      return Algorithm::kInNetwork;
    case Collective::kDirect:
      return Algorithm::kDirect;
    case Collective::kRing:
      return Algorithm::kRing;
    case Collective::kHalvingDoubling:
      return Algorithm::kHalvingDoubling;
    case Collective::kServer:
      return Algorithm::kServer;
  }
  return Algorithm::kAuto;
}

Result<Probed> probe(Group& group, const ProbePlan& plan) {
  SUMCAST_ASSERT(!plan.pairs.empty());
  SUMCAST_ASSERT(plan.small_bytes < plan.large_bytes);
  return Probe(group, plan).run();
}

}  // namespace sumcast::cli

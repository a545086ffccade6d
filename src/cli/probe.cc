#include "cli/probe.h"

#include <algorithm>
#include <array>

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
      : group_(group),
        plan_(plan),
        values_(plan.large_bytes / sizeof(float), 1.0f),
        alone_s_(plan.compute.size()) {}

  Result<Probed> run() {
    Probed result;
    plan::Calibration& calibration = result.calibration;
    std::vector<double> scatter, computing;
    for (const auto& pair : plan_.pairs) {
      Result<plan::MeasuredCost> line = measure(pair, scatter, computing);
      if (!line) return fail(line.error());
      calibration.measured[pair] = *line;
    }
    // One all-reduce of a few bytes is two messages on the shortest way.
    const Result<plan::Spread> tiny = time_of(plan_.pairs.front(), sizeof(float));
    if (!tiny) return fail(tiny.error());
    const plan::Spread step = plan::spread_of(computing);
    std::array<double, 2> shared = {*std::max_element(scatter.begin(), scatter.end()),
                                    tiny->median / 2};
    std::array<double, 2> means = {step.median, step.relative_deviation};
    if (auto agreed = slowest(shared); !agreed) return fail(agreed.error());
    if (auto agreed = mean(means); !agreed) return fail(agreed.error());
    result.compute_s = means[0];
    calibration.compute_jitter = means[1];
    calibration.network_jitter = shared[0];
    calibration.alpha_s = shared[1];
    const plan::MeasuredCost& first = calibration.measured.at(plan_.pairs.front());
    calibration.up_s_per_byte = calibration.down_s_per_byte = first.per_byte_s;
    return result;
  }

 private:
  using Pair = std::pair<Collective, WireFormat>;

  /// A message that is gathered is at most a quarter of a gradient.
  static uint64_t scaled(const Pair& pair, uint64_t bytes) {
    return pair.first == Collective::kGather ? bytes / 4 / sizeof(float) * sizeof(float) : bytes;
  }

  /// Begins an operation over `bytes` in the first or second half of the values.
  Result<Work> begin(const Pair& pair, uint64_t bytes, size_t half) {
    const Call call{algorithm_of(pair.first), pair.second, {}};
    float* const at = values_.data() + half * half_count();
    const uint64_t count = bytes / sizeof(float);
    if (pair.first == Collective::kGather) {
      std::vector<float>& all = gathered_[half];
      all.resize(std::max(all.size(), static_cast<size_t>(count) * group_.size()));
      return group_.all_gather_async(at, all.data(), count, ElementType::kF32, call);
    }
    return group_.all_reduce_async(at, at, count, ElementType::kF32, Reduction::kAvg, call);
  }

  Result<plan::MeasuredCost> measure(const Pair& pair, std::vector<double>& scatter,
                                     std::vector<double>& computing) {
    const Result<plan::Spread> small = time_of(pair, scaled(pair, plan_.small_bytes));
    if (!small) return fail(small.error());
    const uint64_t half_bytes = scaled(pair, half_count() * sizeof(float));
    const Result<plan::Spread> middle = time_of(pair, half_bytes);
    if (!middle) return fail(middle.error());
    const Result<plan::Spread> large = time_of(pair, scaled(pair, plan_.large_bytes));
    if (!large) return fail(large.error());
    scatter.push_back(large->relative_deviation);
    std::array<double, 3> times = {small->median, middle->median, large->median};
    if (auto agreed = slowest(times); !agreed) return fail(agreed.error());
    const plan::SizeSample first{static_cast<double>(scaled(pair, plan_.small_bytes)), times[0]};
    const plan::SizeSample last{static_cast<double>(scaled(pair, plan_.large_bytes)), times[2]};
    const auto half = static_cast<double>(half_bytes);
    plan::MeasuredCost line = plan::line_through(std::array{first, last});
    // The upper half of the sizes has what a rested link forgives behind it.
    line.busy_per_byte_s =
        plan::line_through(std::array{plan::SizeSample{half, times[1]}, last}).per_byte_s;
    if (plan_.compute.empty()) {
      computing.push_back(0);
      return line;
    }
    // Alone just before and just after: machines drift.
    std::fill(alone_s_.begin(), alone_s_.end(), 0.0);
    if (auto met = compute_alone(computing); !met) return fail(met.error());
    const Result<Beside> beside = compute_beside(pair);
    if (!beside) return fail(beside.error());
    if (auto met = compute_alone(computing); !met) return fail(met.error());
    double progress_s = 0;
    for (size_t slice = 0; slice < alone_s_.size(); ++slice) {
      progress_s += beside->slices[slice] * alone_s_[slice] / (2.0 * kAloneSteps);
    }
    // Means over ranks: the largest of several small differences would be noise alone.
    std::array<double, 2> sum = {beside->elapsed_s / beside->sums,
                                 (beside->elapsed_s - progress_s) / beside->sums};
    if (auto agreed = mean(sum); !agreed) return fail(agreed.error());
    plan::Calibration one;
    one.measured[pair] = line;
    const plan::Cost cost = plan::cost_of(one, pair.first, pair.second, group_.size(), half);
    // Two are under way: over a long path their latency bounds them, not the link.
    const double undisturbed = std::max(cost.occupancy_s, times[1] / kSumsBeside);
    if (undisturbed > 0) line.drag = std::max(1.0, sum[0] / undisturbed);
    line.stolen_per_byte_s = std::max(0.0, sum[1]) / half;
    return line;
  }

  Result<plan::Spread> time_of(const Pair& pair, uint64_t bytes) {
    std::vector<double> times;
    for (int i = 0; i <= plan_.repeats; ++i) {
      if (auto met = group_.barrier(); !met) return fail(met.error());
      const Instant start = runtime::monotonic_now();
      auto work = begin(pair, bytes, 0);
      if (!work) return fail(work.error());
      if (auto done = work->wait(); !done) return fail(done.error());
      if (i > 0) times.push_back(seconds_since(start));
    }
    return plan::spread_of(std::move(times));
  }

  /// Adds the slices' times to alone_s_, and whole steps' to `computing`.
  Result<void> compute_alone(std::vector<double>& computing) {
    if (auto met = group_.barrier(); !met) return met;
    for (int step = 0; step < kAloneSteps; ++step) {
      const Instant start = runtime::monotonic_now();
      for (size_t slice = 0; slice < plan_.compute.size(); ++slice) {
        const Instant slice_start = runtime::monotonic_now();
        plan_.compute[slice]();
        alone_s_[slice] += seconds_since(slice_start);
      }
      computing.push_back(seconds_since(start));
    }
    return {};
  }

  struct Beside {
    double elapsed_s = 0;
    double sums = 0;             ///< That ended in it ...
    std::vector<double> slices;  ///< ... and how often each slice was computed.
  };

  size_t half_count() const { return values_.size() / 2; }

  /// Sums and computing side by side, from the first sum's end to the last one's.
  Result<Beside> compute_beside(const Pair& pair) {
    const int total = kSumsBeside + plan_.repeats;
    Beside result;
    result.slices.assign(plan_.compute.size(), 0.0);
    std::array<Work, kSumsBeside> works;
    int begun = 0, ended = 0;
    const uint64_t bytes = scaled(pair, half_count() * sizeof(float));
    const auto begin_next = [&]() -> Result<void> {
      const auto half = static_cast<size_t>(begun % kSumsBeside);
      auto work = begin(pair, bytes, half);
      if (!work) return fail(work.error());
      works[half] = std::move(*work);
      ++begun;
      return {};
    };
    if (auto met = group_.barrier(); !met) return fail(met.error());
    for (int i = 0; i < kSumsBeside; ++i) {
      if (auto started = begin_next(); !started) return fail(started.error());
    }
    Instant start = runtime::monotonic_now();
    for (size_t slice = 0; ended < total; slice = (slice + 1) % plan_.compute.size()) {
      plan_.compute[slice]();
      result.slices[slice] += 1;
      while (ended < total && works[static_cast<size_t>(ended % kSumsBeside)].is_done()) {
        if (auto done = works[static_cast<size_t>(ended % kSumsBeside)].wait(); !done) {
          return fail(done.error());
        }
        if (++ended == 1) {
          start = runtime::monotonic_now();
          std::fill(result.slices.begin(), result.slices.end(), 0.0);
        }
        if (begun == total) continue;
        if (auto started = begin_next(); !started) return fail(started.error());
      }
    }
    result.elapsed_s = seconds_since(start);
    result.sums = total - 1;
    return result;
  }

  Result<void> slowest(std::span<double> values) {
    return group_.all_reduce(values, Reduction::kMax);
  }
  Result<void> mean(std::span<double> values) { return group_.all_reduce(values, Reduction::kAvg); }

  static constexpr int kAloneSteps = 3;
  static constexpr int kSumsBeside = 2;

  Group& group_;
  const ProbePlan& plan_;
  std::vector<float> values_;
  std::array<std::vector<float>, 2> gathered_;
  std::vector<double> alone_s_;  ///< By slice, over the alone steps of one pair.
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
    case Collective::kGather:
      return Algorithm::kRing;  // Of the all-gather.
  }
  return Algorithm::kAuto;
}

Result<Probed> probe(Group& group, const ProbePlan& plan) {
  SUMCAST_ASSERT(!plan.pairs.empty());
  SUMCAST_ASSERT(plan.small_bytes < plan.large_bytes);
  return Probe(group, plan).run();
}

}  // namespace sumcast::cli

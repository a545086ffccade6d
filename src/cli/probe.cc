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
        half_count_(plan.large_bytes / sizeof(float) / 2),
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

  /// Begins an operation over `bytes` in the given half of the values (there may be more than two).
  Result<Work> begin(const Pair& pair, uint64_t bytes, size_t half) {
    const Call call{algorithm_of(pair.first), pair.second, {}};
    float* const at = values_.data() + half * half_count_;
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
    const uint64_t half_bytes = scaled(pair, half_count_ * sizeof(float));
    const Result<plan::Spread> middle = time_of(pair, half_bytes);
    if (!middle) return fail(middle.error());
    const Result<plan::Spread> large = time_of(pair, scaled(pair, plan_.large_bytes));
    if (!large) return fail(large.error());
    scatter.push_back(large->relative_deviation);
    std::array<double, 3> times = {small->median, middle->median, large->median};
    if (auto agreed = slowest(times); !agreed) return fail(agreed.error());
    const plan::SizeSample first{static_cast<double>(scaled(pair, plan_.small_bytes)), times[0]};
    const plan::SizeSample half{static_cast<double>(half_bytes), times[1]};
    const plan::SizeSample last{static_cast<double>(scaled(pair, plan_.large_bytes)), times[2]};
    plan::MeasuredCost line = plan::line_through(std::array{first, last});
    // The upper half of the sizes has what a rested link forgives behind it.
    line.busy_per_byte_s = plan::line_through(std::array{half, last}).per_byte_s;
    if (plan_.compute.empty()) {
      computing.push_back(0);
      return line;
    }
    if (auto done = slowing(pair, half, line, computing); !done) return fail(done.error());
    return line;
  }

  /// What computing and sums of half the size do to each other goes into `line`.
  Result<void> slowing(const Pair& pair, const plan::SizeSample& half, plan::MeasuredCost& line,
                       std::vector<double>& computing) {
    plan::Calibration one;
    one.measured[pair] = line;
    const double occupancy_s =
        plan::cost_of(one, pair.first, pair.second, group_.size(), half.bytes).occupancy_s;
    // Over a long path two do not keep the link busy; many would not fit into a switch's queue.
    const int beside_count =
        occupancy_s > 0
            ? static_cast<int>(std::clamp(half.seconds / occupancy_s, 2.0, double{kBesideMax}))
            : 2;
    const double turn_s = half.seconds / beside_count;  // Were latency all that bounds them.
    const double fastest_s = std::max({occupancy_s, turn_s, 1e-6});
    const int total =
        beside_count + std::clamp(static_cast<int>(kBesideSeconds / fastest_s), plan_.repeats,
                                  std::max(kBesideSumsMax, plan_.repeats));
    // Alone just before and just after: machines drift.
    std::fill(alone_s_.begin(), alone_s_.end(), 0.0);
    if (auto met = compute_alone(computing); !met) return met;
    const Result<Beside> beside = compute_beside(pair, beside_count, total);
    if (!beside) return fail(beside.error());
    if (auto met = compute_alone(computing); !met) return met;
    double progress_s = 0, slices = 0;
    for (size_t slice = 0; slice < alone_s_.size(); ++slice) {
      progress_s += beside->slices[slice] * alone_s_[slice] / (2.0 * plan_.alone_steps);
      slices += beside->slices[slice];
    }
    // Means over ranks: the largest of several small differences would be noise alone.
    std::array<double, 3> sum = {beside->elapsed_s / beside->sums,
                                 (beside->elapsed_s - progress_s) / beside->sums,
                                 beside->elapsed_s / std::max(slices, 1.0)};
    if (auto agreed = mean(sum); !agreed) return agreed;
    line.stolen_per_byte_s = std::max(0.0, sum[1]) / half.bytes;
    if (occupancy_s >= turn_s) {
      if (occupancy_s > 0) line.drag = std::max(1.0, sum[0] / occupancy_s);
    } else {
      // An end is seen between two slices, half of one late on average.
      line.late_s = std::max(0.0, (sum[0] - turn_s) * beside_count - sum[2] / 2);
    }
    return {};
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
    for (int step = 0; step < plan_.alone_steps; ++step) {
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

  /// Computing, and `count` sums under way beside it, `total` in all: from the first one's end to
  /// the last one's.
  Result<Beside> compute_beside(const Pair& pair, int count, int total) {
    values_.resize(std::max(values_.size(), half_count_ * static_cast<size_t>(count)), 1.0f);
    Beside result;
    result.slices.assign(plan_.compute.size(), 0.0);
    std::array<Work, kBesideMax> works;
    int begun = 0, ended = 0;
    const uint64_t bytes = scaled(pair, half_count_ * sizeof(float));
    const auto begin_next = [&]() -> Result<void> {
      const auto half = static_cast<size_t>(begun % count);
      auto work = begin(pair, bytes, half);
      if (!work) return fail(work.error());
      works[half] = std::move(*work);
      ++begun;
      return {};
    };
    if (auto met = group_.barrier(); !met) return fail(met.error());
    for (int i = 0; i < count; ++i) {
      if (auto started = begin_next(); !started) return fail(started.error());
    }
    Instant start = runtime::monotonic_now();
    for (size_t slice = 0; ended < total; slice = (slice + 1) % plan_.compute.size()) {
      plan_.compute[slice]();
      result.slices[slice] += 1;
      while (ended < total && works[static_cast<size_t>(ended % count)].is_done()) {
        if (auto done = works[static_cast<size_t>(ended % count)].wait(); !done) {
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

  /// Sums beside computing: so long, if that is more than the repeats.
  static constexpr double kBesideSeconds = 0.6;
  static constexpr int kBesideSumsMax = 60;
  static constexpr int kBesideMax = 4;

  Group& group_;
  const ProbePlan& plan_;
  const size_t half_count_;
  std::vector<float> values_;
  std::array<std::vector<float>, kBesideMax> gathered_;
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

#include "cli/probe.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <span>

#include "base/assert.h"
#include "plan/fit.h"
#include "runtime/clock.h"

namespace sumcast::cli {
namespace {

using plan::Collective;

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

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
    if (plan_.straggling) {
      if (auto done = straggling(computing, calibration); !done) return fail(done.error());
    }
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

  /// Sums beside computing: so long, if that is more than the repeats.
  static constexpr double kBesideSeconds = 0.6, kBusySeconds = 0.3;
  static constexpr int kBesideSumsMax = 60;
  static constexpr int kBesideMax = 4;

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
    if (auto done = keep_busy(pair, half, last, line); !done) return fail(done.error());
    if (plan_.compute.empty()) {
      computing.push_back(0);
      return line;
    }
    if (auto done = slowing(pair, half, line, computing); !done) return fail(done.error());
    return line;
  }

  /// How often what takes `each_s` is repeated in so long: within bounds.
  int repeats_in(double seconds, double each_s) const {
    return std::clamp(static_cast<int>(seconds / each_s), plan_.repeats,
                      std::max(kBesideSumsMax, plan_.repeats));
  }

  /// How many sums to have under way: over a long path two do not keep the link busy; many would
  /// not fit into a switch's queue.
  static int beside_count(double latency_s, double occupancy_s) {
    if (occupancy_s <= 0) return 2;
    return static_cast<int>(std::clamp(latency_s / occupancy_s, 2.0, double{kBesideMax}));
  }

  /// What a byte keeps the bottleneck busy goes into `line`.
  Result<void> keep_busy(const Pair& pair, const plan::SizeSample& half,
                         const plan::SizeSample& last, plan::MeasuredCost& line) {
    // The upper half of the sizes has what a rested link forgives behind it ...
    line.busy_per_byte_s = plan::line_through(std::array{half, last}).per_byte_s;
    const double foreseen_s = line.busy_per_byte_s * half.bytes;
    // Where latency is what a wide pipeline hides, as many as that has under way.
    constexpr double kLongShare = 0.1;
    const bool is_long = line.fixed_s > kLongShare * last.seconds;
    const int count = is_long ? kBesideMax : beside_count(half.seconds, foreseen_s);
    const double fastest_s = std::max({foreseen_s, half.seconds / count, 1e-6});
    const int total = count + repeats_in(kBusySeconds, fastest_s);
    const Result<double> each = one_behind_another(pair, count, total);
    if (!each) return fail(each.error());
    std::array<double, 1> shared = {*each};
    if (auto agreed = mean(shared); !agreed) return agreed;
    // ... and what latency adds for each window of a larger sum is hidden where sums follow
    // closely.
    line.busy_per_byte_s = std::min(line.busy_per_byte_s, shared[0] / half.bytes);
    return {};
  }

  /// What computing and sums of half the size do to each other goes into `line`.
  Result<void> slowing(const Pair& pair, const plan::SizeSample& half, plan::MeasuredCost& line,
                       std::vector<double>& computing) {
    plan::Calibration one;
    one.measured[pair] = line;
    const double occupancy_s =
        plan::cost_of(one, pair.first, pair.second, group_.size(), half.bytes).occupancy_s;
    const int count = beside_count(half.seconds, occupancy_s);
    const double turn_s = half.seconds / count;  // Were latency all that bounds them.
    const double fastest_s = std::max({occupancy_s, turn_s, 1e-6});
    const int total = count + repeats_in(kBesideSeconds, fastest_s);
    // Alone just before and just after: machines drift.
    std::fill(alone_s_.begin(), alone_s_.end(), 0.0);
    if (auto met = compute_alone(computing); !met) return met;
    const Result<Beside> beside = compute_beside(pair, count, total);
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
      line.late_s = std::max(0.0, (sum[0] - turn_s) * count - sum[2] / 2);
    }
    return {};
  }

  /// How much longer synchronous steps, of computing and then a sum of half the size, take than
  /// both apart: ranks wait for one another.
  Result<void> straggling(std::vector<double>& computing, plan::Calibration& calibration) {
    const uint64_t half_bytes = half_count_ * sizeof(float);
    const Result<plan::Spread> half = time_of(plan_.pairs.front(), half_bytes);
    if (!half) return fail(half.error());
    std::vector<double> alone;
    if (auto met = compute_alone(alone); !met) return met;
    const Result<double> step_s = synchronous_step(half_bytes, mean_of(alone) + half->median);
    if (!step_s) return fail(step_s.error());
    if (auto met = compute_alone(alone); !met) return met;
    computing.insert(computing.end(), alone.begin(), alone.end());
    std::array<double, 1> late = {*step_s - mean_of(alone) - half->median};
    if (auto agreed = mean(late); !agreed) return agreed;
    calibration.straggling_s = std::max(0.0, late[0]);
    return {};
  }

  /// Seconds of a step that computes, sums, and waits for the sum.
  ///
  /// @param about_s  what it is taken for; all ranks take as many, whatever each has seen.
  Result<double> synchronous_step(uint64_t bytes, double about_s) {
    std::array<double, 1> shared = {about_s};
    if (auto agreed = mean(shared); !agreed) return fail(agreed.error());
    const int steps = repeats_in(kBusySeconds, shared[0]);
    Instant start = runtime::monotonic_now();
    for (int i = 0; i <= steps; ++i) {
      if (i == 1) start = runtime::monotonic_now();  // The first one brings ranks into step.
      for (const auto& slice : plan_.compute) slice();
      auto work = begin(plan_.pairs.front(), bytes, 0);
      if (!work) return fail(work.error());
      if (auto done = work->wait(); !done) return fail(done.error());
    }
    return seconds_since(start) / steps;
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
    return compute_until_all_come(group_, plan_.compute);
  }

  /// `count` sums of half the size under way, `total` in all, in the order of their beginnings.
  class Stream {
   public:
    Stream(Probe& probe, const Pair& pair, int count, int total)
        : probe_(probe),
          pair_(pair),
          bytes_(scaled(pair, probe.half_count_ * sizeof(float))),
          count_(count),
          total_(total) {
      const size_t wanted = probe.half_count_ * static_cast<size_t>(count);
      probe.values_.resize(std::max(probe.values_.size(), wanted), 1.0f);
    }
    Result<void> begin() {
      for (int i = 0; i < count_; ++i) {
        if (auto started = begin_next(); !started) return started;
      }
      return {};
    }
    int ended() const { return ended_; }
    bool is_over() const { return ended_ == total_; }
    bool is_oldest_done() { return oldest().is_done(); }
    /// The next one begins in its place.
    Result<void> finish_oldest() {
      if (auto done = oldest().wait(); !done) return done;
      ++ended_;
      return begun_ < total_ ? begin_next() : Result<void>();
    }

   private:
    Work& oldest() { return works_[static_cast<size_t>(ended_ % count_)]; }
    Result<void> begin_next() {
      const auto half = static_cast<size_t>(begun_ % count_);
      auto work = probe_.begin(pair_, bytes_, half);
      if (!work) return fail(work.error());
      works_[half] = std::move(*work);
      ++begun_;
      return {};
    }

    Probe& probe_;
    const Pair pair_;
    const uint64_t bytes_;
    const int count_, total_;
    int begun_ = 0, ended_ = 0;
    std::array<Work, kBesideMax> works_;
  };

  /// Seconds that each takes, from the first one's end to the last one's, nothing beside them.
  Result<double> one_behind_another(const Pair& pair, int count, int total) {
    if (auto met = group_.barrier(); !met) return fail(met.error());
    Stream stream(*this, pair, count, total);
    if (auto started = stream.begin(); !started) return fail(started.error());
    Instant start = runtime::monotonic_now();
    while (!stream.is_over()) {
      if (auto done = stream.finish_oldest(); !done) return fail(done.error());
      if (stream.ended() == 1) start = runtime::monotonic_now();
    }
    return seconds_since(start) / (total - 1);
  }

  struct Beside {
    double elapsed_s = 0;
    double sums = 0;             ///< That ended in it ...
    std::vector<double> slices;  ///< ... and how often each slice was computed.
  };

  /// Computing, and `count` sums under way beside it, `total` in all: from the first one's end to
  /// the last one's.
  Result<Beside> compute_beside(const Pair& pair, int count, int total) {
    Beside result;
    result.slices.assign(plan_.compute.size(), 0.0);
    if (auto met = group_.barrier(); !met) return fail(met.error());
    Stream stream(*this, pair, count, total);
    if (auto started = stream.begin(); !started) return fail(started.error());
    Instant start = runtime::monotonic_now();
    for (size_t slice = 0; !stream.is_over(); slice = (slice + 1) % plan_.compute.size()) {
      plan_.compute[slice]();
      result.slices[slice] += 1;
      while (!stream.is_over() && stream.is_oldest_done()) {
        if (auto done = stream.finish_oldest(); !done) return fail(done.error());
        if (stream.ended() == 1) {
          start = runtime::monotonic_now();
          std::fill(result.slices.begin(), result.slices.end(), 0.0);
        }
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

  Group& group_;
  const ProbePlan& plan_;
  const size_t half_count_;
  std::vector<float> values_;
  std::array<std::vector<float>, kBesideMax> gathered_;
  std::vector<double> alone_s_;  ///< By slice, over the alone steps of one pair.
};

}  // namespace

Result<void> compute_until_all_come(Group& group, std::span<const std::function<void()>> compute) {
  SUMCAST_ASSERT(!compute.empty());
  auto met = group.barrier_async();
  if (!met) return fail(met.error());
  for (size_t slice = 0; !met->is_done(); slice = (slice + 1) % compute.size()) compute[slice]();
  return met->wait();
}

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

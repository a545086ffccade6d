#include "cli/demo_result.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/assert.h"

namespace sumcast::cli {
namespace {

Duration communication_of(std::span<const WorkerResult> workers) {
  std::vector<Duration> shortest = workers[0].reductions;
  for (const WorkerResult& worker : workers) {
    for (size_t step = 0; step < shortest.size(); ++step) {
      shortest[step] = std::min(shortest[step], worker.reductions[step]);
    }
  }
  const auto middle = shortest.begin() + static_cast<ptrdiff_t>(shortest.size() / 2);
  std::nth_element(shortest.begin(), middle, shortest.end());
  return *middle;
}

std::optional<uint64_t> bytes_of(const MethodRun& run, size_t steps) {
  std::vector<uint64_t> sent = run.link_bytes;
  if (sent.empty()) {
    for (const WorkerResult& worker : run.workers) sent.push_back(worker.datagram_bytes);
  }
  const uint64_t total = std::accumulate(sent.begin(), sent.end(), uint64_t{0});
  if (total == 0) return std::nullopt;
  return total / (sent.size() * steps);
}

void append(std::string& list, std::string_view name) {
  if (!list.empty()) list += ", ";
  list += name;
}

void check_identity(std::span<const MethodOutcome> all, std::vector<std::string>& broken) {
  const MethodOutcome* reference = nullptr;  // The first canonical one.
  std::string agreeing, differing;           // Names of the canonical ones.
  for (const MethodOutcome& outcome : all) {
    if (!outcome.ranks_identical()) {
      std::string hashes;
      for (const uint64_t hash : outcome.weights) append(hashes, fmt::format("{:016x}", hash));
      broken.push_back(fmt::format("{}: the workers ended with different weights ({})",
                                   outcome.method.name, hashes));
    }
    if (!outcome.method.canonical) continue;
    if (reference == nullptr) reference = &outcome;
    append(outcome.weights[0] == reference->weights[0] ? agreeing : differing, outcome.method.name);
  }
  if (!differing.empty()) {
    broken.push_back(
        fmt::format("canonical sums must give the same weights bit for bit, but {} "
                    "differ from {}",
                    differing, agreeing));
  }
}

void check_accuracy(std::span<const MethodOutcome> all, std::vector<std::string>& broken) {
  for (const MethodOutcome& outcome : all) {
    if (outcome.accuracy >= kPromisedAccuracy) continue;
    broken.push_back(fmt::format("{}: test accuracy is {:.2f} %, at least {:.0f} % is promised",
                                 outcome.method.name, 100 * outcome.accuracy,
                                 100 * kPromisedAccuracy));
  }
  const auto [low, high] = std::ranges::minmax_element(all, {}, &MethodOutcome::accuracy);
  // Accuracies are multiples of 1/10,000; half of one keeps rounding out of the comparison.
  if (high->accuracy - low->accuracy > kPromisedSpread + 0.00005) {
    broken.push_back(fmt::format(
        "test accuracies lie {:.2f} points apart ({} {:.2f} %, {} {:.2f} %), at most {} are "
        "promised",
        100 * (high->accuracy - low->accuracy), low->method.name, 100 * low->accuracy,
        high->method.name, 100 * high->accuracy, 100 * kPromisedSpread));
  }
}

}  // namespace

bool MethodOutcome::ranks_identical() const {
  return std::ranges::all_of(weights, [&](uint64_t hash) { return hash == weights[0]; });
}

Result<MethodOutcome> summarise(const DemoMethod& method, const MethodRun& run) {
  SUMCAST_ASSERT(!run.workers.empty());
  const size_t steps = run.workers[0].reductions.size();
  const bool fits = steps > 0 && run.workers[0].accuracy.has_value() &&
                    std::ranges::all_of(run.workers, [&](const WorkerResult& worker) {
                      return worker.reductions.size() == steps && worker.losses.size() == steps;
                    });
  if (!fits) {
    return fail(ErrorCode::kInternal,
                fmt::format("{}: the workers' results do not fit together", method.name));
  }
  MethodOutcome outcome;
  outcome.method = method;
  for (const WorkerResult& worker : run.workers) {
    outcome.step = std::max(outcome.step, worker.step_median);
    outcome.weights.push_back(worker.weights_hash);
  }
  outcome.communication = std::min(communication_of(run.workers), outcome.step);
  outcome.bytes_per_worker = bytes_of(run, steps);
  outcome.accuracy = *run.workers[0].accuracy;
  outcome.losses = run.workers[0].losses;
  outcome.gradient_bytes = run.workers[0].gradient_bytes;
  outcome.width = run.workers[0].width;
  outcome.wire = run.workers[0].wire;
  return outcome;
}

bool identical(const MethodOutcome& outcome, std::span<const MethodOutcome> all) {
  if (!outcome.ranks_identical()) return false;
  if (!outcome.method.canonical) return true;
  return std::ranges::all_of(all, [&](const MethodOutcome& other) {
    return !other.method.canonical || other.weights[0] == outcome.weights[0];
  });
}

std::vector<std::string> broken_promises(std::span<const MethodOutcome> all, bool full_size) {
  std::vector<std::string> broken;
  check_identity(all, broken);
  if (full_size && !all.empty()) check_accuracy(all, broken);
  return broken;
}

}  // namespace sumcast::cli

#include "sparse/auto_path.h"

#include <array>
#include <chrono>

namespace sumcast::sparse {
namespace {

constexpr uint32_t kWarmRounds = 2;
constexpr uint32_t kTimedRounds = 12;
/// Less is noise, and cold keys need no second path.
constexpr double kWorthIt = 0.97;

Result<double> time_rounds(Worker& worker, std::span<const uint64_t> hot, const RunRounds& run) {
  if (auto set = worker.set_hot(hot); !set) return fail(set.error());
  if (auto done = run(kWarmRounds); !done) return fail(done.error());
  const auto begun = std::chrono::steady_clock::now();
  if (auto done = run(kTimedRounds); !done) return fail(done.error());
  // What hot rows owe the servers, once every so often, is part of the price.
  if (auto done = worker.flush(); !done) return fail(done.error());
  if (auto done = worker.settle(); !done) return fail(done.error());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
}

}  // namespace

Result<bool> choose_path(Worker& worker, std::span<const uint64_t> hot, const RunRounds& run) {
  if (hot.empty()) {
    if (auto set = worker.set_hot(hot); !set) return fail(set.error());
    return false;
  }
  std::array<double, 2> seconds{};
  for (size_t way = 0; way < 2; ++way) {
    auto time = time_rounds(worker, way == 0 ? std::span<const uint64_t>() : hot, run);
    if (!time) return fail(time.error());
    seconds[way] = *time;
  }
  // The slowest worker's times are everybody's.
  auto done = worker.all_reduce(std::span<double>(seconds), Reduction::kMax);
  if (!done) return fail(done.error());
  const bool is_hot = seconds[1] < kWorthIt * seconds[0];
  if (!is_hot) {
    if (auto set = worker.set_hot({}); !set) return fail(set.error());
  }
  return is_hot;
}

}  // namespace sumcast::sparse

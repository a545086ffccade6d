#include "cli/bench_contender.h"

namespace sumcast::cli {
namespace {
constexpr Duration kDrainPatience = 10s;
}  // namespace

Result<void> Meter::start() {
  if (cluster_.has_links()) {
    if (Result<void> drained = cluster_.drain(kDrainPatience); !drained) return drained;
    Result<std::vector<lab::LinkCounters>> counters = cluster_.all_counters();
    if (!counters) return fail(counters.error());
    before_ = std::move(*counters);
  }
  clock_ = lab::CpuClock();
  return {};
}

Result<void> Meter::stop(uint64_t operations, Tally& tally) {
  tally.busy += clock_.busy();
  tally.operations += operations;
  if (!cluster_.has_links()) return {};
  const Result<std::vector<lab::LinkCounters>> after = cluster_.all_counters();
  if (!after) return fail(after.error());
  const auto workers = static_cast<size_t>(cluster_.options().workers);
  tally.tx_bytes.resize(workers);
  for (size_t i = 0; i < workers; ++i) {
    tally.tx_bytes[i] += (*after)[i].up.bytes - before_[i].up.bytes;
  }
  return {};
}

}  // namespace sumcast::cli

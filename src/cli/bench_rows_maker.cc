#include "cli/bench_rows_maker.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/bench_statistics.h"

namespace sumcast::cli {
namespace {

constexpr auto kOut = static_cast<size_t>(Half::kOutOfPlace);
constexpr auto kIn = static_cast<size_t>(Half::kInPlace);

/// In place if there is that half: so gradients are summed, so peers are measured, and one
/// contender's half is compared with the same of another's.
const std::vector<double>& leading_times(const Tally& tally) {
  return tally.times_us[kIn].empty() ? tally.times_us[kOut] : tally.times_us[kIn];
}

bool has_root(Collective collective) {
  return collective == Collective::kReduce || collective == Collective::kBroadcast;
}

report::NcclTiming timing_of(const BenchCase& bench, uint32_t workers, const Tally& tally,
                             size_t half) {
  report::NcclTiming timing;
  timing.time_us = median(tally.times_us[half]);
  if (timing.time_us > 0) {
    timing.algbw_GBps = static_cast<double>(bench.bytes) / (timing.time_us * 1e3);
  }
  timing.busbw_GBps = timing.algbw_GBps * bus_factor(bench.collective, workers);
  if (tally.checked) timing.wrong = static_cast<int64_t>(tally.wrong[half]);
  return timing;
}

}  // namespace

report::NcclRow nccl_row_of(const BenchCase& bench, uint32_t workers, const Tally& tally) {
  report::NcclRow row;
  row.bytes = bench.bytes;
  row.count = bench.count;
  row.type = bench.type;
  row.reduction = bench.reduction;
  row.root = has_root(bench.collective) ? static_cast<int>(bench.root) : -1;
  if (!tally.times_us[kOut].empty()) row.out_of_place = timing_of(bench, workers, tally, kOut);
  row.in_place = timing_of(bench, workers, tally, tally.times_us[kIn].empty() ? kOut : kIn);
  row.iterations = static_cast<int>(leading_times(tally).size());
  return row;
}

report::BenchRow bench_row_of(const ContenderSpec& contender, const BenchPlan& plan,
                              const BenchCase& bench, const DatagramShape& shape,
                              const Tally& tally) {
  report::BenchRow row;
  row.algo = contender.name;
  row.collective = name_of(bench.collective);
  row.op = report::nccl_name(bench.reduction);
  row.type = report::nccl_name(bench.type);
  row.wire = name_of(contender.is_canonical() ? bench.wire : WireFormat::kNative);
  row.workers = static_cast<int>(plan.flags.workers);
  row.hosts = static_cast<int>(plan.hosts());
  row.rate_bps = static_cast<double>(plan.rate_bits_per_second);
  row.bytes = bench.bytes;
  const std::vector<double>& times = leading_times(tally);
  row.time_us = median(times);
  if (!times.empty()) {
    row.time_us_min = *std::min_element(times.begin(), times.end());
    row.time_us_max = *std::max_element(times.begin(), times.end());
  }
  if (!tally.times_us[kOut].empty()) row.time_out_of_place_us = median(tally.times_us[kOut]);
  if (row.time_us > 0) row.algbw_GBps = static_cast<double>(bench.bytes) / (row.time_us * 1e3);
  row.busbw_GBps = row.algbw_GBps * bus_factor(bench.collective, plan.flags.workers);
  row.density = static_cast<double>(bench.density_millionths) / BenchCase::kDense;
  row.bound_us = bound_us(contender, bench, plan.flags.workers, plan.flags.ranks_per_host,
                          plan.rate_bits_per_second, shape);
  if (!tally.tx_bytes.empty() && tally.operations > 0) {
    row.tx_bytes_per_worker =
        *std::max_element(tally.tx_bytes.begin(), tally.tx_bytes.end()) / tally.operations;
  }
  const double moved = static_cast<double>(bench.bytes) * static_cast<double>(tally.operations);
  if (moved > 0) row.cpu_s_per_GB = static_cast<double>(tally.busy.count()) / moved;
  row.retransmits = tally.retransmits;
  if (tally.checked) row.wrong = tally.wrong[kOut] + tally.wrong[kIn];
  return row;
}

std::string spread_line(const Tally& tally) {
  const Spread s = spread(leading_times(tally));
  return fmt::format("#   i_min {:.2f}  i_max {:.2f}  i_p99 {:.2f}  i_cv {:.1f} %", s.min, s.max,
                     s.p99, s.cv_percent);
}

}  // namespace sumcast::cli

#include "plan/cost.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/assert.h"

namespace sumcast::plan {
namespace {

constexpr std::array<std::string_view, kCollectives> kNames = {
    "in-network", "direct", "ring", "halving-doubling", "server", "gather"};
constexpr std::array<std::string_view, kPackings> kPackingNames = {"none", "top-k", "qsgd"};

/// Lanes under one scale or exponent (docs/numerics.md).
constexpr double kBlockLanes = 256;

/// `n`: payload bytes on the link; `f32`: bytes of the tensor.
Cost formula(const Calibration& c, Collective collective, double p, double n) {
  const double slower = std::max(c.up_s_per_byte, c.down_s_per_byte);
  const double shares = (p - 1) / p;
  Cost cost;
  switch (collective) {
    case Collective::kRing:
    case Collective::kHalvingDoubling: {
      const double messages =
          collective == Collective::kRing ? 2 * (p - 1) : 2 * std::ceil(std::log2(p));
      cost.latency_s = messages * c.alpha_s + 2 * shares * n * slower +
                       shares * n * c.reduce_s_per_byte + c.startup_s;
      cost.occupancy_s = cost.latency_s;
      return cost;
    }
    case Collective::kGather:
      cost.latency_s = (p - 1) * (c.alpha_s + n * slower) + c.startup_s;
      cost.occupancy_s = cost.latency_s;
      return cost;
    case Collective::kDirect:
      cost.occupancy_s = 2 * shares * n * slower;
      cost.latency_s = cost.occupancy_s + shares * n * c.reduce_s_per_byte;
      break;
    case Collective::kServer:
      cost.occupancy_s = p * n * std::max(slower, c.reduce_s_per_byte);
      cost.latency_s = cost.occupancy_s;
      break;
    case Collective::kInNetwork:
      cost.occupancy_s = n * slower;
      if (c.aggregator_bytes_per_s > 0) {
        cost.occupancy_s = std::max(cost.occupancy_s, p * n / c.aggregator_bytes_per_s);
      }
      cost.latency_s = cost.occupancy_s;
      break;
  }
  cost.latency_s += 2 * c.alpha_s + c.startup_s;
  return cost;
}

}  // namespace

std::string_view name_of(Collective collective) { return kNames[static_cast<size_t>(collective)]; }

std::optional<Collective> collective_from_name(std::string_view name) {
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<Collective>(found - kNames.begin());
}

double bytes_per_byte(WireFormat wire) {
  switch (wire) {
    case WireFormat::kNative:
      return 1;
    case WireFormat::kBF16:
    case WireFormat::kFP16:
      return 0.5;
    case WireFormat::kInt8:
      return 0.25 + 1 / kBlockLanes;
    case WireFormat::kFixed:
      return 1 + 0.25 / kBlockLanes;
  }
  return 1;
}

std::string_view name_of(Packing packing) { return kPackingNames[static_cast<size_t>(packing)]; }

double bytes_per_byte(Packing packing) {
  constexpr double kQsgdBucket = 512;
  switch (packing) {
    case Packing::kNone:
      return 1;
    case Packing::kTopK:
      return 2 * kTopKShare;
    case Packing::kQsgd:
      return 0.25 + 1 / kQsgdBucket;
  }
  return 1;
}

Cost cost_of(const Calibration& calibration, Collective collective, WireFormat wire,
             uint32_t workers, double bytes) {
  SUMCAST_ASSERT(workers >= 1);
  SUMCAST_ASSERT(bytes >= 0);
  if (workers == 1) return {};
  const auto measured = calibration.measured.find({collective, wire});
  if (measured != calibration.measured.end()) {
    const MeasuredCost& line = measured->second;
    const double total = line.fixed_s + line.per_byte_s * bytes;
    const double busy = (line.busy_per_byte_s > 0 ? line.busy_per_byte_s : line.per_byte_s) * bytes;
    const bool waits = collective == Collective::kRing ||
                       collective == Collective::kHalvingDoubling ||
                       collective == Collective::kGather;
    return {total, waits ? total : std::min(busy, total), line.stolen_per_byte_s * bytes, line.drag,
            line.late_s};
  }
  Cost cost = formula(calibration, collective, workers, bytes * bytes_per_byte(wire));
  cost.stolen_s = calibration.stolen_s_per_byte * bytes * bytes_per_byte(wire);
  if (wire != WireFormat::kNative) {
    // Chunks are encoded while earlier ones travel: the slower of the two counts.
    const double codec = calibration.codec_s_per_byte * bytes;
    cost.latency_s += std::max(0.0, codec - cost.occupancy_s);
    cost.stolen_s += codec;
  }
  return cost;
}

double break_even_rate(uint32_t workers, double worker_rate) {
  SUMCAST_ASSERT(workers >= 2);
  const double n = workers;
  return n * n * worker_rate / (2 * (n - 1));
}

}  // namespace sumcast::plan

// What one all-reduce costs: the textbook forms, from a handful of calibrated numbers.
//
// A cost has two sides. Its *latency* is the time from the call to the result. Its *occupancy* is
// how long it keeps the bottleneck (a link, a server's port) busy, so that no other operation makes
// progress there. On a LAN the two are nearly equal; over a long path the latency is larger, which
// is what widths above two are for (timing.h). Where an algorithm waits for an answer between its
// own messages it keeps others out as well, and its occupancy is its latency.
//
//   p workers, n payload bytes, a = message latency, b = seconds per byte, g = per byte reduced
//   ring               2(p-1) a + 2(p-1)/p n b + (p-1)/p n g + S
//   halving-doubling   2 log2 p a + 2(p-1)/p n b + (p-1)/p n g + S
//   direct             2 a + 2(p-1)/p n b + (p-1)/p n g + S
//   server             2 a + p n b + p n g + S      chunked, both directions of its link at once
//   in-network         2 a + n b + S                one port per worker; no reduction at workers
//   gather             (p-1) a + (p-1) n b + S      n: one worker's message, which all others get
//
// A software aggregator with one port of its own carries p n each way: in-network then takes
// p n / rate if that is longer. Pure: nothing here measures, and no clock is read.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "base/element.h"

namespace sumcast::plan {

enum class Collective : uint8_t { kInNetwork, kDirect, kRing, kHalvingDoubling, kServer, kGather };
inline constexpr int kCollectives = 6;

/// "in-network", "direct", "ring", "halving-doubling", "server": the API's names; "gather".
std::string_view name_of(Collective collective);
std::optional<Collective> collective_from_name(std::string_view name);

/// Whether it can carry `wire`: the baselines over TCP send f32 as it is.
constexpr bool carries(Collective collective, WireFormat wire) {
  return wire == WireFormat::kNative ||
         (collective != Collective::kRing && collective != Collective::kHalvingDoubling &&
          collective != Collective::kGather);
}

/// What a worker sends in place of its gradient where messages are gathered instead of summed.
enum class Packing : uint8_t {
  kNone = 0,
  kTopK = 1,  ///< The largest kTopKShare of the elements as index and value.
  kQsgd = 2,  ///< A byte an element, and a norm for each 512.
};
inline constexpr int kPackings = 3;
inline constexpr double kTopKShare = 0.01;
/// "none", "top-k", "qsgd".
std::string_view name_of(Packing packing);
/// Bytes of a worker's message for each byte of an f32 gradient; 1 for kNone.
double bytes_per_byte(Packing packing);

/// Bytes on a link for each byte of an f32 tensor: 1, 1/2 (16 bits), a code and its share of a
/// block's scale (int8), a lane and its share of an exponent (fixed).
double bytes_per_byte(WireFormat wire);

/// An all-reduce as a straight line through two measured sizes.
struct MeasuredCost {
  double fixed_s = 0;
  double per_byte_s = 0;         ///< By bytes of the f32 tensor, not of what travels.
  double stolen_per_byte_s = 0;  ///< What computing beside it takes longer, per such byte.
  double drag = 1;               ///< How many times as long it takes beside computing, at least 1.
  /// What each byte keeps the bottleneck busy where sums follow one another; 0: as per_byte_s. The
  /// two differ where a link that has rested passes the first bytes faster.
  double busy_per_byte_s = 0;
  double late_s = 0;  ///< What it comes later beside computing, whatever its size, beyond the drag.
};

/// All numbers that predictions rest on. Nominal rates have been wrong by 8.7x: calibrate.
struct Calibration {
  double alpha_s = 50e-6;             ///< From a message's sending to its receipt, empty links.
  double up_s_per_byte = 0;           ///< From a worker, headers included in the rate. Above 0.
  double down_s_per_byte = 0;         ///< To a worker. Above 0.
  double reduce_s_per_byte = 0;       ///< Adding on a worker or server.
  double startup_s = 20e-6;           ///< Of a collective, whatever its size.
  double codec_s_per_byte = 0;        ///< Encoding and decoding, per byte of f32; not for native.
  double stolen_s_per_byte = 0;       ///< Compute that communication slows down, per byte of f32.
  double aggregator_bytes_per_s = 0;  ///< Of an aggregator's one port; 0: a port per worker.
  double compute_jitter = 0.03;       ///< Relative deviation of a step's computing.
  double network_jitter = 0.03;       ///< Relative deviation of a collective's time.
  /// What a synchronous step takes beyond a worker's computing and a sum: ranks that are not ready
  /// at once, caches gone cold. Unset: from compute_jitter. Pipelines always go by that
  /// (varying.h).
  std::optional<double> straggling_s;
  /// Where a pair was measured its line takes the formulas' place.
  std::map<std::pair<Collective, WireFormat>, MeasuredCost> measured;
};

struct Cost {
  double latency_s = 0;
  double occupancy_s = 0;
  double stolen_s = 0;  ///< Compute lost if all of it runs beside computing.
  double drag = 1;      ///< How many times as long it takes beside computing, at least 1.
  double late_s = 0;    ///< What it comes later beside computing, beyond the drag.
};

/// Of a worker that exchanges with the server alone while the link is free.
inline double own_exchange_s(const Cost& cost, uint32_t workers) {
  return cost.latency_s - cost.occupancy_s + cost.occupancy_s / std::max(1u, workers);
}

/// Of one all-reduce of `bytes` of f32 among `workers` (at least 1; one worker costs nothing); of a
/// gather of messages of `bytes`.
Cost cost_of(const Calibration& calibration, Collective collective, WireFormat wire,
             uint32_t workers, double bytes);

/// The least rate, in the unit of `worker_rate`, at which one port of a software aggregator ties
/// with a ring among `workers` of that rate: n^2 B / (2(n-1)). Two workers or more.
double break_even_rate(uint32_t workers, double worker_rate);

}  // namespace sumcast::plan

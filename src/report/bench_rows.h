// One measurement of the bench, and its line of JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace sumcast::report {

/// A median over iterations with what explains it. Fields that a peer cannot report are empty and
/// become null.
struct BenchRow {
  std::string algo;        ///< "in-network", "direct", "ring", ..., or a peer: "gloo", "openmpi".
  std::string collective;  ///< "all_reduce", ...
  std::string op;          ///< "sum", ...
  std::string type;        ///< "f32", ...
  std::string wire;        ///< "native", "bf16", ...
  int workers = 0;
  int hosts = 0;          ///< Equal to workers unless hosts have several ranks.
  double rate_bps = 0.0;  ///< Each worker's link in bits per second, 0 if unshaped.
  uint64_t bytes = 0;     ///< The tensor's size, as nccl-tests counts it.
  double time_us = 0.0;   ///< Median; in place, where that was measured.
  double time_us_min = 0.0;
  double time_us_max = 0.0;
  std::optional<double> time_out_of_place_us;  ///< Median of that half, where there is one.
  double algbw_GBps = 0.0;                     ///< bytes / time, in 1e9 bytes per second.
  double busbw_GBps = 0.0;                     ///< algbw times the collective's factor.
  double density = 1;              ///< Share of a rank's pieces of 64 bytes that are not zeros.
  std::optional<double> bound_us;  ///< What the links alone would take; empty if unshaped.
  std::optional<uint64_t> tx_bytes_per_worker;  ///< Per operation, the most of any host.
  std::optional<double> cpu_s_per_GB;  ///< All processes and softirq, per 1e9 bytes of tensor.
  std::optional<uint64_t> retransmits;
  std::optional<uint64_t>
      wrong;  ///< Elements that differ from the expected bits; empty: unchecked.
};

/// One object on one line, keys in the order above, without a newline. Non-finite numbers are null.
std::string to_json_line(const BenchRow& row);

}  // namespace sumcast::report

// The least time that the links allow: what a measured time is compared with.
//
// Pure arithmetic over full-duplex links of one rate. Every byte that a link's queueing discipline
// counts is included (Ethernet, IP, UDP or TCP headers, our header and tag), nothing else is: no
// round trip, no processing.
//
//   frame(p)    = 14 + 20 + 8 + 32 + p + 16       one datagram with p bytes of payload (no tag:
//   -16) T           = sum of frame over the chunks of the tensor TCP(b)      = b * 1514 / 1448
//   full segments with timestamps at MTU 1500
//
//   bytes through the busiest direction of the busiest link, n workers:
//                    in-network, wire   direct           server    ring, halving-doubling, peers
//   all_reduce       T                  2(n-1)/n T       n T       2(n-1)/n TCP
//   reduce           T                  (n-1) T          n T       TCP
//   broadcast        T                  (n-1) T          (n-1) T   TCP
//   all_gather       (n-1)/n T          (n-1)/n T        (n-1) T   (n-1)/n TCP
//   reduce_scatter   T                  (n-1)/n T        n T       (n-1)/n TCP
//
// For the last column these are lower bounds of any algorithm between hosts, whatever it does.
#pragma once

#include <cstdint>
#include <optional>

#include "cli/bench_plan.h"

namespace sumcast::cli {

/// What a datagram carries.
struct DatagramShape {
  uint32_t payload_bytes_max = 0;  ///< Context::payload_bytes.
  bool tagged = true;
};

/// Bytes of one frame as the queueing discipline counts them.
uint64_t frame_bytes(uint32_t payload_bytes, bool tagged);

/// Bytes of all frames that carry the tensor of `bench` once, in wire format `wire`; for `fixed`
/// the exponent codes that are exchanged first are included.
uint64_t tensor_frame_bytes(const BenchCase& bench, WireFormat wire, const DatagramShape& shape);

/// Microseconds for one operation; empty if the rate is 0, the collective is a barrier, or all
/// ranks are on one host.
///
/// @param ranks_per_host  with several, `n` above is the number of hosts, and f16 and bf16 travel
///                        as f32 (docs/numerics.md, N2). Divides `workers`.
/// @param shape  of our datagrams; not looked at for TCP.
std::optional<double> bound_us(const ContenderSpec& contender, const BenchCase& bench,
                               uint32_t workers, uint32_t ranks_per_host,
                               uint64_t rate_bits_per_second, const DatagramShape& shape);

}  // namespace sumcast::cli

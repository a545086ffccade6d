// `--algo wire`: the ceiling that this machine sets. The datagrams of an in-network all-reduce, in
// the same batches through the same sockets, but nothing is added, checked, tagged or copied.
//
//   worker r                               echo, in the aggregator's namespace
//     sends T datagrams, at most `window`    one socket per worker, connected to it
//     ahead of what came back                as soon as k more datagrams have come from *every*
//     counts what comes back                 worker: k datagrams to all of them at once (P19)
//
// A datagram that is lost is not sent again: the window is below what socket buffers hold, so none
// should be. If one is, the operation fails after a second and says so.
#pragma once

#include "cli/bench_worker.h"

namespace sumcast::cli {

/// Default for --window: three batches, about what fits a receive buffer of 212,992 bytes.
inline constexpr uint32_t kWireWindow = 132;

/// Worker `options.library.rank`, which sends to options.peer, port options.port + rank.
Result<std::unique_ptr<WorkerRole>> make_wire_role(const WorkerOptions& options);

/// Serves until standard input ends; prints "hello 0" when its ports are open. Returns the
/// process's exit code.
int run_wire_echo(const WorkerOptions& options);

/// Datagrams that carry a tensor, and the size of each.
struct WireTraffic {
  uint64_t datagrams = 0;
  uint32_t datagram_bytes = 0;
};
/// @param payload_bytes_max what a datagram may carry besides header and tag.
WireTraffic wire_traffic(const BenchCase& bench, uint32_t payload_bytes_max, bool tagged);

}  // namespace sumcast::cli

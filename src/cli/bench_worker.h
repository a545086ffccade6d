// One rank of a bench: `sumcast bench-worker`, started by the driver in a worker's namespace.
//
// It joins, then does what lines on standard input say (bench_protocol.h) until they end. What a
// rank does with them is its role: operations of the library (here), or moving datagrams without
// looking at them (wire_bench.h).
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "cli/bench_protocol.h"
#include "sumcast/sumcast.hpp"

namespace sumcast::cli {

/// Everything that a worker is told when it starts.
struct WorkerOptions {
  std::string role = "context";  ///< "context", "wire", or "wire-echo".
  std::string algorithm = "in-network";
  Options library;  ///< Job, rank, world, addresses, keys, faults and so on.
  bool check = true;
  uint32_t unalign = 0;         ///< Elements by which buffers are shifted.
  uint64_t seed = 1;            ///< Of the data.
  uint32_t ranks_per_host = 1;  ///< Consecutive ranks: what must come out depends on it.
  std::string peer;             ///< wire: address of the echo; wire-echo: its own.
  uint16_t port = 0;  ///< wire, wire-echo: rank r uses port + r, and all that of rank `world`.
};

/// The command line that gives a worker these options.
std::vector<std::string> worker_argv(const std::string& program, const WorkerOptions& options);

/// Registers the hidden subcommand `bench-worker`.
void add_bench_worker_command(CLI::App& app, int& exit_code);

/// What a rank does when it is told to. Single-threaded.
class WorkerRole {
 public:
  virtual ~WorkerRole() = default;
  /// Bytes of payload per datagram that were agreed on.
  virtual uint32_t payload_bytes() const = 0;
  virtual Result<void> set_case(const BenchCase& bench) = 0;
  /// Makes buffers fresh: inputs in place or beside, results poisoned.
  virtual void fill(bool in_place) = 0;
  /// The timed block: as many operations as the case says.
  virtual Result<void> run() = 0;
  /// Wrong elements in the results of the last block.
  virtual uint64_t count_wrong() const = 0;
  virtual uint64_t retransmits() const = 0;
};

/// Operations of the public API.
Result<std::unique_ptr<WorkerRole>> make_context_role(const WorkerOptions& options);

/// Greets, then serves commands from `in` until its end. Returns the process's exit code.
int serve_commands(WorkerRole& role, std::FILE* in, std::FILE* out);

}  // namespace sumcast::cli

// One run of a peer's program (bench/peers): gloo's ranks, or an MPI job.
//
// Driven step by step: rank 0 says "ready" after every iteration and waits for a line. A job runs a
// list of sizes that share an algorithm and a block length.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/bench_site.h"
#include "cli/process_tree.h"

namespace sumcast::cli {

/// What a peer measured for one size.
struct PeerResult {
  uint64_t bytes = 0;
  bool checked = false;
  uint64_t wrong = 0;
  std::vector<double> times_us;
};
/// Reads the line that a peer prints; kInternal if it is something else.
Result<PeerResult> peer_result_from_line(std::string_view line);

struct PeerRun {
  PeerKind peer = PeerKind::kGloo;
  std::string algorithm = "auto";
  Collective collective = Collective::kAllReduce;
  std::vector<uint64_t> sizes;
  uint32_t iterations = 1;
  uint32_t warmup = 1;      ///< At least 1.
  uint32_t operations = 1;  ///< Back to back in one timed iteration.
  bool check = false;
  bool step = false;
};

/// The algorithms worth trying for a collective; just "auto" where there is no choice.
std::vector<std::string> peer_algorithms(PeerKind peer, Collective collective);

class PeerJob {
 public:
  static Result<PeerJob> start(BenchSite& site, const PeerRun& run);

  /// Runs to the end and returns all results. Only without `step`.
  Result<std::vector<PeerResult>> finish(Duration patience);

  /// Only with `step`. Waits for the first iteration of the first size, which runs unasked.
  Result<void> await_ready(Duration patience);
  /// Lets the next iteration run and waits for its end.
  Result<void> step(Duration patience);
  /// After a size's last iteration: its result. The first iteration of the next size, if there is
  /// one, has run when this returns.
  Result<PeerResult> end_size(bool is_last, Duration patience);

  /// Keeps the job from using processors until it is resumed.
  void pause();
  void resume();

 private:
  PeerJob(const PeerRun& run, std::vector<lab::Process> processes)
      : run_(run), processes_(std::move(processes)) {}

  static Result<PeerJob> start_gloo(BenchSite& site, const PeerRun& run,
                                    const std::string& program);
  static Result<PeerJob> start_mpi(BenchSite& site, const PeerRun& run, const std::string& program);
  /// The next line of rank 0 that is a result or "ready"; launchers print others.
  Result<std::string> next_line(Duration patience);
  lab::Process& leader() { return processes_.front(); }
  bool spins() const { return run_.peer != PeerKind::kGloo; }

  PeerRun run_;
  std::vector<lab::Process> processes_;      ///< gloo: ranks; MPI: the launcher.
  std::optional<ScratchDirectory> meeting_;  ///< gloo: where ranks find each other.
  std::optional<ProcessTree> tree_;
};

}  // namespace sumcast::cli

// Starts an MPI job whose ranks really live on the workers of a cluster, without ssh.
//
// Both launchers, Open MPI's mpirun and MPICH's mpiexec, reach a host by running a *remote shell*
// of the user's choice as `agent <host> <command>`. Ours enters the network namespace that belongs
// to that address. The launcher itself runs on the aggregator, from where it reaches all workers.
// The agent is a shell script in a memory file of this process, so no file is left anywhere; the
// whole job is contained (process.h), because MPI's daemons leave process groups.
#pragma once

#include <string>
#include <vector>

#include "lab/cluster.h"

namespace sumcast::lab {

enum class MpiKind : uint8_t { kOpenMpi, kMpich };

struct MpiJob {
  MpiKind kind = MpiKind::kOpenMpi;
  /// The program that every rank runs, built for this kind's library.
  std::vector<std::string> argv;
  /// All-reduce algorithm, "auto" for the library's own choice; see mpi_algorithms().
  std::string algorithm = "auto";
  /// Consecutive ranks that live on one worker; with more than one they may use shared memory.
  int ranks_per_host = 1;
  /// Further arguments of the launcher, put before the program: MCA parameters and the like.
  std::vector<std::string> launcher_arguments;
  /// Streams and environment of the launcher; rank 0 gets its standard input. `contain` is implied.
  SpawnOptions spawning;
};

/// The names that MpiJob::algorithm can have: "auto" first.
std::vector<std::string> mpi_algorithms(MpiKind kind);

/// Starts `ranks_per_host` ranks per worker. On loopback clusters all ranks run on this machine and
/// talk TCP through loopback. kUnsupported for an unknown algorithm; kUnavailable without the
/// launcher (mpirun.openmpi, mpiexec.hydra).
Result<Process> spawn_mpi(const Cluster& cluster, const MpiJob& job);

}  // namespace sumcast::lab

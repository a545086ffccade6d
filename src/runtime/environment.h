// The environment: the only place that calls getenv.
//
// Who reads variables takes an EnvironmentLookup, so that tests bring their own instead of
// changing the process's. An empty variable counts as unset throughout: `X= program` is how
// people switch things off.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/result.h"

namespace sumcast::runtime {

/// The variable's value; nothing if it is unset or empty.
std::optional<std::string> environment(const char* name);

using EnvironmentLookup = std::function<std::optional<std::string>(const char* name)>;

/// Where a launcher put this process.
struct LaunchedRank {
  uint32_t rank = 0;        ///< Below `world`.
  uint32_t world = 1;       ///< At least 1, at most kWorldMax.
  uint32_t local_rank = 0;  ///< Index among the ranks of this host; 0 if the launcher is silent.
  std::string source;       ///< "torchrun" "Open MPI" "MPICH" "PMIx" "Slurm"
  /// What tells this launch from others, on all of its ranks: "slurm-4711.0"; empty if the launcher
  /// does not say.
  std::string job;
};

/// Senders are 15-bit numbers on the wire.
inline constexpr uint32_t kWorldMax = 32767;

/// Reads what torchrun, Open MPI, MPICH, PMIx or Slurm set, the first that is there in this
/// order: a launcher runs inside the allocation of a scheduler, so it is the one to believe.
///
/// @return nothing if no launcher started this process; kInvalidArgument naming the variable if
///         one is no number, out of range, or set without its companion.
Result<std::optional<LaunchedRank>> launched_rank(const EnvironmentLookup& lookup = environment);

/// Where ranks meet, as torchrun and its imitators say it.
struct MasterEndpoint {
  std::string host;
  uint16_t port = 0;
};

/// Reads MASTER_ADDR and MASTER_PORT (29500 if only the address is set).
Result<std::optional<MasterEndpoint>> master_endpoint(
    const EnvironmentLookup& lookup = environment);

}  // namespace sumcast::runtime

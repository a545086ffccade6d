#include "runtime/environment.h"

#include <fmt/format.h>

#include <array>
#include <cstdlib>

#include "runtime/units.h"

namespace sumcast::runtime {
namespace {

/// torchrun's own default for a rendezvous on one host.
constexpr uint16_t kMasterPort = 29500;

struct Launcher {
  const char* name;
  const char* rank;
  const char* world;
  const char* local_rank;
  /// Slurm sets SLURM_PROCID in batch scripts without SLURM_NTASKS: a script is no rank.
  bool rank_alone_is_wrong;
  /// The launch's name: a word before it, the variable, and one for its part; null: none.
  const char* job_prefix = nullptr;
  const char* job = nullptr;
  const char* job_step = nullptr;
};

constexpr std::array<Launcher, 6> kLaunchers = {{
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", true},
    // Open MPI's own name for a launch, which it also gives to PMIx.
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", true,
     "mpi", "PMIX_NAMESPACE"},
    {"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", true},
    {"PMIx", "PMIX_RANK", "PMIX_SIZE", "PMIX_LOCAL_RANK", false, "pmix", "PMIX_NAMESPACE"},
    // PMIx itself names no size; under `srun --mpi=pmix` Slurm does.
    {"PMIx", "PMIX_RANK", "SLURM_NTASKS", "SLURM_LOCALID", true, "pmix", "PMIX_NAMESPACE"},
    {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", false, "slurm", "SLURM_JOB_ID",
     "SLURM_STEP_ID"},
}};

std::string job_of(const Launcher& launcher, const EnvironmentLookup& lookup) {
  const auto id = launcher.job != nullptr ? lookup(launcher.job) : std::nullopt;
  if (!id) return "";
  const auto step = launcher.job_step != nullptr ? lookup(launcher.job_step) : std::nullopt;
  return fmt::format("{}-{}{}", launcher.job_prefix, *id, step ? "." + *step : "");
}

Result<uint32_t> read_number(const char* name, const std::string& text, uint32_t least,
                             uint32_t most) {
  const Result<uint64_t> value = parse_count(text);
  if (!value || *value < least || *value > most) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("environment variable {}='{}' should be a number from {} to {}", name,
                            text, least, most));
  }
  return static_cast<uint32_t>(*value);
}

Result<LaunchedRank> read_launcher(const Launcher& launcher, const std::string& rank_text,
                                   const std::string& world_text, const EnvironmentLookup& lookup) {
  LaunchedRank launched;
  launched.source = launcher.name;
  launched.job = job_of(launcher, lookup);
  const Result<uint32_t> world = read_number(launcher.world, world_text, 1, kWorldMax);
  if (!world) return fail(world.error());
  launched.world = *world;
  const Result<uint32_t> rank = read_number(launcher.rank, rank_text, 0, kWorldMax);
  if (!rank) return fail(rank.error());
  if (*rank >= *world) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("environment variable {}={} should be below {}={}", launcher.rank,
                            *rank, launcher.world, *world));
  }
  launched.rank = *rank;
  if (const auto text = lookup(launcher.local_rank)) {
    const Result<uint32_t> local = read_number(launcher.local_rank, *text, 0, kWorldMax);
    if (!local) return fail(local.error());
    launched.local_rank = *local;
  }
  return launched;
}

}  // namespace

std::optional<std::string> environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

Result<std::optional<LaunchedRank>> launched_rank(const EnvironmentLookup& lookup) {
  for (const Launcher& launcher : kLaunchers) {
    const auto rank = lookup(launcher.rank);
    if (!rank) continue;
    const auto world = lookup(launcher.world);
    if (!world && !launcher.rank_alone_is_wrong) continue;
    if (!world) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("environment variable {} is set but {} is not; set both or neither",
                              launcher.rank, launcher.world));
    }
    Result<LaunchedRank> launched = read_launcher(launcher, *rank, *world, lookup);
    if (!launched) return fail(launched.error());
    return std::optional(*std::move(launched));
  }
  return std::optional<LaunchedRank>();
}

Result<std::optional<MasterEndpoint>> master_endpoint(const EnvironmentLookup& lookup) {
  const auto host = lookup("MASTER_ADDR");
  const auto port_text = lookup("MASTER_PORT");
  if (!host) return std::optional<MasterEndpoint>();
  MasterEndpoint endpoint{*host, kMasterPort};
  if (port_text) {
    const Result<uint32_t> port = read_number("MASTER_PORT", *port_text, 1, 65535);
    if (!port) return fail(port.error());
    endpoint.port = static_cast<uint16_t>(*port);
  }
  return std::optional(std::move(endpoint));
}

}  // namespace sumcast::runtime

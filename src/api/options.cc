// Options from variables, configuration file and launcher.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "runtime/config.h"
#include "runtime/environment.h"
#include "runtime/log.h"
#include "sumcast/sumcast.hpp"

namespace sumcast {
namespace {

constexpr std::array<std::string_view, 6> kAlgorithmNames = {"auto", "in-network",       "direct",
                                                             "ring", "halving-doubling", "server"};

}  // namespace

std::string_view name_of(Algorithm algorithm) {
  return kAlgorithmNames[static_cast<size_t>(algorithm)];
}

std::optional<Algorithm> algorithm_from_name(std::string_view name) {
  const auto at = std::ranges::find(kAlgorithmNames, name);
  if (at == kAlgorithmNames.end()) return std::nullopt;
  return static_cast<Algorithm>(at - kAlgorithmNames.begin());
}

Result<Options> Options::from_settings(const std::string& config_file) {
  auto settings =
      runtime::load_settings(config_file.empty() ? std::nullopt : std::optional(config_file));
  if (!settings) return fail(runtime::joined(settings.error()));
  if (const auto problems = runtime::validate(*settings); !problems.empty()) {
    return fail(runtime::joined(problems));
  }
  if (auto log = runtime::configure_log(runtime::log_options(*settings)); !log) {
    return fail(log.error());
  }
  Options options;
  for (const std::string& one : settings->aggregator) {
    options.aggregator += (options.aggregator.empty() ? "" : ",") + one;
  }
  options.key_file = settings->key_file;
  options.insecure = settings->insecure;
  options.one_rank_per_host = settings->one_rank_per_host;
  options.interface = settings->socket_ifname;
  options.family = settings->socket_family;
  options.timeout = settings->timeout;
  options.heartbeat = settings->heartbeat_interval;
  options.death = settings->heartbeat_death;
  options.mtu = settings->mtu;
  options.flows = static_cast<uint16_t>(settings->flows);
  options.window = settings->window;
  options.socket_buffer_bytes = static_cast<int>(settings->socket_buffer);
  options.spin = settings->spin;
  options.multicast = settings->multicast;
  options.return_after = settings->return_after;
  const auto algorithm = algorithm_from_name(settings->algorithm);
  if (!algorithm) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("algorithm \"{}\" does not exist; there are auto, in-network, direct, "
                            "ring, halving-doubling, server",
                            settings->algorithm));
  }
  options.algorithm = *algorithm;
  options.wire = *wire_format_from_name(settings->wire);  // Checked when it was read.
  if (!settings->job.empty()) options.job = settings->job;
  options.faults.loss = settings->fault_loss;
  options.faults.duplicate = settings->fault_duplicate;
  options.faults.reorder = settings->fault_reorder;
  options.faults.delay = settings->fault_delay;
  options.faults.seed = settings->fault_seed;
  return options;
}

Result<Options> Options::from_environment(const std::string& config_file) {
  auto read = from_settings(config_file);
  if (!read) return fail(read.error());
  Options options = std::move(*read);
  auto launched = runtime::launched_rank();
  if (!launched) return fail(launched.error());
  bool is_named = options.job != Options().job;
  if (*launched) {
    options.rank = (*launched)->rank;
    options.world = (*launched)->world;
    runtime::set_log_rank(options.rank);
    if (!is_named && !(*launched)->job.empty()) {
      options.job = (*launched)->job;
      is_named = true;
    }
  }
  auto master = runtime::master_endpoint();
  if (!master) return fail(master.error());
  if (*master) {
    options.coordinator = fmt::format("{}:{}", (*master)->host, (*master)->port + 1);
    // Where a job's ranks meet is theirs alone, so it tells apart the jobs that share a daemon.
    if (!is_named) {
      options.job = fmt::format("{}:{}", (*master)->host, (*master)->port);
    }
  }
  return options;
}

}  // namespace sumcast

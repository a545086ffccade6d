#include "runtime/config_keys.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/units.h"

namespace sumcast::runtime {
namespace {

Result<void> check_endpoint(std::string_view text) {
  const size_t colon = text.rfind(':');
  const std::string_view host = text.substr(0, std::min(colon, text.size()));
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  const bool plain = !host.empty() && host.find_first_of(":[] \t") == std::string_view::npos;
  if (colon != std::string_view::npos && (bracketed || plain)) {
    const Result<uint64_t> port = parse_count(text.substr(colon + 1));
    if (port && *port <= 65535) return {};
  }
  return fail(
      ErrorCode::kInvalidArgument,
      fmt::format("'{}' is not an address; write host:port, or [address]:port for IPv6", text));
}

Result<void> check_endpoint_or_none(std::string_view text) {
  return text.empty() ? Result<void>() : check_endpoint(text);
}

Result<void> check_choice(std::string_view text, std::span<const std::string_view> choices) {
  if (std::find(choices.begin(), choices.end(), text) != choices.end()) return {};
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("'{}' is not known; choose one of {}", text, fmt::join(choices, ", ")));
}

Result<void> check_family(std::string_view text) {
  static constexpr std::array<std::string_view, 2> kChoices = {"AF_INET", "AF_INET6"};
  return text.empty() ? Result<void>() : check_choice(text, kChoices);
}

Result<void> check_algorithm(std::string_view text) {
  static constexpr std::array<std::string_view, 6> kChoices = {
      "auto", "in-network", "direct", "ring", "halving-doubling", "server"};
  return check_choice(text, kChoices);
}

Result<void> check_wire(std::string_view text) {
  static constexpr std::array<std::string_view, 5> kChoices = {"fp32", "bf16", "fp16", "int8",
                                                               "fixed"};
  return check_choice(text, kChoices);
}

Result<void> check_level(std::string_view text) {
  return check_log_options({std::string(text), "ALL", ""});
}

Result<void> check_subsystems(std::string_view text) {
  return check_log_options({"WARN", std::string(text), ""});
}

constexpr ConfigKey kKeys[] = {
    {"aggregator",
     "SUMCAST_AGGREGATOR",
     &Settings::aggregator,
     "",
     "Aggregator daemons as host:port. Without any, every rank hosts a shard of the aggregator "
     "itself.",
     {},
     0,
     UINT64_MAX,
     check_endpoint},
    {"socket_ifname",
     "SUMCAST_SOCKET_IFNAME",
     &Settings::socket_ifname,
     "",
     "Network interfaces to use: a list of prefixes; = before it means exact names, ^ excludes, "
     "^= excludes exact names. Empty: all but loopback and docker bridges, unless nothing else is "
     "left.",
     {"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"}},
    {"socket_family",
     "SUMCAST_SOCKET_FAMILY",
     &Settings::socket_family,
     "",
     "AF_INET or AF_INET6: the addresses that names of hosts resolve to. Empty: the resolver's "
     "first.",
     {"NCCL_SOCKET_FAMILY"},
     0,
     UINT64_MAX,
     check_family},
    {"key_file", "SUMCAST_KEY_FILE", &Settings::key_file, "",
     "Path of a file that holds the job's key as 64 hex digits, mode 600; the same on all hosts. "
     "Empty: under torchrun rank 0 makes a key and hands it out."},
    {"insecure", "SUMCAST_INSECURE", &Settings::insecure, "",
     "Run without keys and tags. Anybody who can send to the job's ports can then change its "
     "results."},
    {"one_rank_per_host", "SUMCAST_ONE_RANK_PER_HOST", &Settings::one_rank_per_host, "",
     "Treat every rank as a host of its own: ranks of one host then send each for itself instead "
     "of adding up in shared memory first. For rehearsals on one machine, and to find faults. The "
     "same on all ranks."},
    {"algorithm",
     "SUMCAST_ALGORITHM",
     &Settings::algorithm,
     "",
     "auto, in-network, direct, ring, halving-doubling or server. auto never chooses ring or "
     "halving-doubling for floats, because they give other bits.",
     {},
     0,
     UINT64_MAX,
     check_algorithm},
    {"wire",
     "SUMCAST_WIRE",
     &Settings::wire,
     "",
     "How sums and averages of f32 travel when a call does not say: fp32, bf16, fp16, int8 or "
     "fixed. All but fp32 round (docs/numerics.md); the sum is always made in 32 bits or more.",
     {},
     0,
     UINT64_MAX,
     check_wire},
    {"job", "SUMCAST_JOB", &Settings::job, "",
     "Name of the job, equal on all of its ranks and no other job's of the same daemon. Empty: "
     "what the launcher calls it (Open MPI, PMIx, Slurm), or where its ranks meet (MASTER_ADDR and "
     "MASTER_PORT), or sumcast."},
    {"timeout", "SUMCAST_TIMEOUT", &Settings::timeout, "",
     "How long an operation may wait for ranks that live but do not take part. Dead ranks are "
     "noticed by heartbeats, much earlier."},
    {"spin", "SUMCAST_SPIN", &Settings::spin, "",
     "How long a thread that waits for datagrams looks for them before it sleeps, giving its core "
     "to others between looks. Longer: quicker small operations; 0s: no CPU time spent on "
     "looking. Ranks of one host look for each other at most so long, and at most 20us."},
    {"multicast", "SUMCAST_MULTICAST", &Settings::multicast, "",
     "An aggregator, in a daemon or in a worker, sends each result once, to all workers on its "
     "link that hear its multicast group; others, and all where the network does not carry it, get "
     "their own. Of the daemon, or of one worker."},
    {"return_after", "SUMCAST_RETURN_AFTER", &Settings::return_after, "",
     "A job that goes on without an aggregator that was lost (sparse training) looks after so long "
     "whether it is back, and goes back to it; twice as long after each time that it is lost again "
     "soon, up to 5m. 0s: never. On all ranks alike."},
    {"flows",
     "SUMCAST_FLOWS",
     &Settings::flows,
     "",
     "UDP flows, each with a port and receive buffers of its own, from a worker to each thread of "
     "a daemon. More have more datagrams under way where buffers are small and round trips long "
     "(200 "
     "Mbit/s and 40 ms need 8), and take several of a network's equal paths; multicast needs 1.",
     {},
     1,
     8},
    {"window",
     "SUMCAST_WINDOW",
     &Settings::window,
     "datagrams",
     "Most datagrams that a worker has under way to a shard. 0: what the socket buffers hold.",
     {},
     0,
     65535},
    {"socket_buffer",
     "SUMCAST_SOCKET_BUFFER",
     &Settings::socket_buffer,
     "bytes",
     "Socket buffers to ask for. The default is what Linux gives without being asked; larger ones "
     "allow larger windows and need the sysctl net.core.rmem_max raised.",
     {},
     16384,
     1 << 30},
    {"mtu",
     "SUMCAST_MTU",
     &Settings::mtu,
     "bytes",
     "Largest IP packet. Above 1500 every switch and card on the path has to allow it.",
     {},
     576,
     9000},
    {"heartbeat.interval", "SUMCAST_HEARTBEAT_INTERVAL", &Settings::heartbeat_interval, "",
     "How often a member says that it is alive."},
    {"heartbeat.death", "SUMCAST_HEARTBEAT_DEATH", &Settings::heartbeat_death, "",
     "After how long a silence a member counts as dead and the others get an error."},
    {"daemon.listen",
     "SUMCAST_LISTEN",
     &Settings::daemon_listen,
     "",
     "Address on which sumcastd takes workers.",
     {},
     0,
     UINT64_MAX,
     check_endpoint},
    {"daemon.http",
     "SUMCAST_HTTP",
     &Settings::daemon_http,
     "",
     "Address of status and metrics, which are not authenticated. Empty: none.",
     {},
     0,
     UINT64_MAX,
     check_endpoint_or_none},
    {"daemon.threads",
     "SUMCAST_THREADS",
     &Settings::daemon_threads,
     "threads",
     "Threads that aggregate, each with a port of its own. 0: one per CPU.",
     {},
     0,
     256},
    {"daemon.slots_per_thread",
     "SUMCAST_SLOTS_PER_THREAD",
     &Settings::daemon_slots_per_thread,
     "slots",
     "Size of each thread's pool, which its jobs share. A slot takes two datagrams per worker: "
     "1024 slots with 8 workers are about 24 MB.",
     {},
     1,
     65535},
    {"debug.level",
     "SUMCAST_DEBUG",
     &Settings::debug_level,
     "",
     "What is logged: VERSION, WARN, INFO or TRACE.",
     {},
     0,
     UINT64_MAX,
     check_level},
    {"debug.subsys",
     "SUMCAST_DEBUG_SUBSYS",
     &Settings::debug_subsys,
     "",
     "Subsystems that INFO and TRACE show, such as INIT,NET; ^ before the list excludes.",
     {},
     0,
     UINT64_MAX,
     check_subsystems},
    {"debug.file", "SUMCAST_DEBUG_FILE", &Settings::debug_file, "",
     "File for the log; %h becomes the host, %p the process. Empty: standard error."},
    {"fault.loss", "SUMCAST_FAULT_LOSS", &Settings::fault_loss, "",
     "Share of datagrams to drop, for rehearsals."},
    {"fault.duplicate", "SUMCAST_FAULT_DUPLICATE", &Settings::fault_duplicate, "",
     "Share of datagrams to deliver twice."},
    {"fault.reorder", "SUMCAST_FAULT_REORDER", &Settings::fault_reorder, "",
     "Share of datagrams that later ones overtake."},
    {"fault.delay", "SUMCAST_FAULT_DELAY", &Settings::fault_delay, "",
     "Time by which each datagram is held."},
    {"fault.seed", "SUMCAST_FAULT_SEED", &Settings::fault_seed, "",
     "Start of the faults' random numbers: the same seed gives the same faults."},
};

}  // namespace

std::span<const ConfigKey> config_keys() { return kKeys; }

const ConfigKey* find_config_key(std::string_view name) {
  const auto found = std::find_if(std::begin(kKeys), std::end(kKeys),
                                  [name](const ConfigKey& key) { return key.name == name; });
  return found == std::end(kKeys) ? nullptr : found;
}

}  // namespace sumcast::runtime

// Configuration: every knob a user can turn, where its value comes from, and what is wrong.
//
//   defaults  <  sumcast.toml (--config or SUMCAST_CONFIG)  <  SUMCAST_*  <  flags
//
// One table (runtime/config_keys.h) drives the file, the environment, flags and documents, so
// that they cannot disagree. Loading reports all problems at once: a user fixes a file in one
// go. A mistyped key is a problem and never ignored. It does not know which program wants which
// knob; programs apply their flags last with `set_setting` and then call `validate`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "runtime/environment.h"
#include "runtime/log.h"

namespace sumcast::runtime {

/// Values of all knobs. Texts are checked for form when they are set, not for existence.
struct Settings {
  /// Aggregator daemons, "host:port" each. None: every rank hosts a shard (algorithm `direct`),
  /// so that a job runs with nothing started beforehand.
  std::vector<std::string> aggregator;
  /// Interfaces to use, in NCCL's grammar: prefixes, "=" exact, "^" and "^=" exclude. Empty:
  /// all but loopback and docker bridges, unless nothing else is left.
  std::string socket_ifname;
  /// "AF_INET", "AF_INET6", or empty for whichever the chosen interface has.
  std::string socket_family;
  /// Path of the job's key. Empty: the key comes through the launcher's store.
  std::string key_file;
  /// No keys and no tags: for trusted networks and measurements only, hence off.
  bool insecure = false;
  /// No shared memory between ranks of one host. Off: one contribution per host is what lets a card
  /// serve several ranks.
  bool one_rank_per_host = false;
  /// "auto" chooses by group size, tensor size and what is reachable; see docs/numerics.md for
  /// which algorithms give equal bits.
  std::string algorithm = "auto";
  /// How sums and averages of f32 travel when a call does not say: "fp32", or "bf16", "fp16",
  /// "int8" or "fixed" (docs/numerics.md).
  std::string wire = "fp32";
  /// Name of the job, equal on all ranks. Empty: from the launcher, or "sumcast".
  std::string job;
  /// Limit of one operation. Dead ranks are noticed by heartbeats; this is for ranks that live and
  /// do not come, and evaluation or checkpointing on one rank may take minutes.
  Duration timeout = 10min;
  /// How often each member says that it lives: six within `heartbeat_death`, so that lost or late
  /// ones do no harm.
  Duration heartbeat_interval = 250ms;
  /// Silence after which a member is dead: leaves half a second of the promised two to tell all.
  Duration heartbeat_death = 1500ms;
  /// How long a thread that waits for datagrams looks for them before it sleeps. Being woken costs
  /// as much as a small operation takes; it gives its core to whoever wants it meanwhile.
  Duration spin = 100us;
  /// Results to all workers of an aggregator's link at once, where that is found to work.
  bool multicast = true;
  /// UDP flows of a worker to each thread of a daemon, each with receive buffers of its own.
  uint32_t flows = 1;
  /// Most datagrams under way to a shard; 0: what the socket buffers hold.
  uint32_t window = 0;
  /// Socket buffers to ask for, bytes: Linux' own default, which every machine allows.
  uint32_t socket_buffer = 212'992;
  /// Away from an aggregator that was lost, how long before looking whether it is back; longer each
  /// time that it does not stay. 0s: never. Shorter than a restart takes would only look in vain.
  Duration return_after = 1s;
  /// Largest IP packet, bytes: Ethernet's own. Jumbo frames need all switches to agree.
  uint32_t mtu = 1500;

  /// Address that the daemon takes workers on.
  std::string daemon_listen = "0.0.0.0:4700";
  /// Address of status and metrics; loopback because they are not authenticated. Empty: none.
  std::string daemon_http = "127.0.0.1:4701";
  /// Threads that aggregate, each with a port of its own; 0: one per CPU. One adds 10 Gbit/s or so,
  /// and every further one makes each worker's batches smaller.
  uint32_t daemon_threads = 1;
  /// Slots in each thread's pool, shared by its jobs. Each takes two versions of one datagram per
  /// worker: 1,024 slots with 8 workers are about 24 MB.
  uint32_t daemon_slots_per_thread = 1024;

  /// VERSION, WARN, INFO or TRACE. Warnings, because nothing may fall back silently.
  std::string debug_level = "WARN";
  /// Subsystems that INFO and TRACE show: a list, "^" excludes.
  std::string debug_subsys = "ALL";
  /// Where lines go; %h is the host, %p the process. Empty: standard error.
  std::string debug_file;

  // Faults injected between program and socket, for tests and rehearsals. All off.
  double fault_loss = 0;       ///< Share of datagrams dropped.
  double fault_duplicate = 0;  ///< Share of datagrams delivered twice.
  double fault_reorder = 0;    ///< Share of datagrams overtaken by later ones.
  Duration fault_delay{0};     ///< Added to each datagram.
  uint64_t fault_seed = 1;     ///< Same seed, same faults.

  bool operator==(const Settings&) const = default;
};

/// Everything that is wrong, each on one line with its place: "sumcast.toml:7: ..." or
/// "SUMCAST_TIMEOUT: ...".
using Problems = std::vector<Error>;

/// Defaults, then the file, then the environment.
///
/// @param config_path  from --config; nothing: SUMCAST_CONFIG; neither: no file is read.
tl::expected<Settings, Problems> load_settings(const std::optional<std::string>& config_path,
                                               const EnvironmentLookup& lookup = environment);

/// Sets one knob from text, as a flag does.
/// @param name  as in the file, with its table: "daemon.threads".
/// @return kInvalidArgument if the text does not fit, or the name is unknown (with the nearest
///         known one); `settings` is then unchanged.
Result<void> set_setting(Settings& settings, std::string_view name, std::string_view text);

/// Applies the text of a configuration file; `file` is its name in problems.
Problems apply_toml(Settings& settings, std::string_view text, const std::string& file);
/// Applies what is set of SUMCAST_* and of the variables that some fall back to.
Problems apply_environment(Settings& settings, const EnvironmentLookup& lookup);

/// Problems between knobs, after flags: each value alone was checked when it was set.
Problems validate(const Settings& settings);

/// One error for programs that can report only one: all lines, under the first code.
/// `problems` is not empty.
Error joined(const Problems& problems);

/// What `configure_log` takes.
LogOptions log_options(const Settings& settings);

/// docs/config.md, complete.
std::string config_markdown();
/// A commented sumcast.toml that sets nothing: every key with its meaning and default.
std::string config_sample_toml();

}  // namespace sumcast::runtime

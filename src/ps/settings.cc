#include "ps/settings.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

#include "runtime/units.h"

namespace sumcast::ps {
namespace {

using Find = std::function<const char*(const char*)>;

Error wrong(const char* name, std::string_view value, std::string_view allowed) {
  return {ErrorCode::kInvalidArgument, fmt::format("{}={}: must be {}", name, value, allowed)};
}

/// Reads variables one after another and keeps the first problem.
class Reader {
 public:
  explicit Reader(const Find& find) : find_(find) {}

  std::optional<std::string> text(const char* name, bool required = false) {
    const char* const value = find_(name);
    if (value != nullptr) return std::string(value);
    if (required) {
      note({ErrorCode::kInvalidArgument,
            fmt::format("{} is not set; every process of a job needs it", name)});
    }
    return std::nullopt;
  }

  template <typename T>
  void number(const char* name, uint64_t least, uint64_t most, T& into, bool required = false) {
    const auto value = text(name, required);
    if (!value) return;
    const auto count = runtime::parse_count(*value);
    if (!count || *count < least || *count > most) {
      note(wrong(name, *value, fmt::format("a whole number from {} to {}", least, most)));
    } else {
      into = static_cast<T>(*count);
    }
  }

  /// A bare number in `unit`, as ps-lite has it, or a number with its unit.
  void duration(const char* name, Duration unit, Duration& into) {
    const auto value = text(name);
    if (!value) return;
    if (const auto count = runtime::parse_count(*value); count && *count <= 1'000'000'000) {
      into = unit * static_cast<int64_t>(*count);
    } else if (const auto parsed = runtime::parse_duration(*value)) {
      into = *parsed;
    } else {
      note(wrong(name, *value, "a time such as 10s"));
    }
  }

  void note(Error error) {
    if (!problem_) problem_ = std::move(error);
  }
  const std::optional<Error>& problem() const { return problem_; }

 private:
  const Find& find_;
  std::optional<Error> problem_;
};

void read_role(Reader& reader, Settings& settings) {
  const auto role = reader.text("DMLC_ROLE", true);
  if (!role) return;
  if (*role == "worker") {
    settings.role = ::ps::Node::WORKER;
  } else if (*role == "server") {
    settings.role = ::ps::Node::SERVER;
  } else if (*role == "scheduler") {
    settings.role = ::ps::Node::SCHEDULER;
  } else {
    reader.note(wrong("DMLC_ROLE", *role, "worker, server or scheduler"));
  }
}

void read_van(Reader& reader, Settings& settings) {
  const auto van = reader.text("DMLC_PS_VAN_TYPE");
  if (!van) return;
  settings.by_priority = *van == "p3";
  for (const char* known : {"zmq", "p3", "ibverbs", "tcp"}) {
    if (*van == known) return;
  }
  reader.note(wrong("DMLC_PS_VAN_TYPE", *van,
                    "zmq, p3, ibverbs or tcp (which all mean our own transport)"));
}

void read_partition(Reader& reader, Settings& settings) {
  const auto partition = reader.text("SUMCAST_PS_PARTITION");
  if (!partition) return;
  if (*partition == "ranges") {
    settings.partition = ::ps::Partition::kRanges;
  } else if (*partition == "hash") {
    settings.partition = ::ps::Partition::kHash;
  } else {
    reader.note(wrong("SUMCAST_PS_PARTITION", *partition, "ranges or hash"));
  }
}

/// "No network is needed": everything is on this host, whatever name the scheduler has.
void read_places(Reader& reader, Settings& settings) {
  int local = 0, kubernetes = 0;
  reader.number("DMLC_LOCAL", 0, INT32_MAX, local);
  reader.number("DMLC_USE_KUBERNETES", 0, INT32_MAX, kubernetes);
  settings.any_address = kubernetes != 0;
  settings.node_host = reader.text("DMLC_NODE_HOST").value_or("");
  settings.interface = reader.text("DMLC_INTERFACE").value_or("");
  if (local == 0) return;
  settings.root_host = "127.0.0.1";
  settings.node_host = "127.0.0.1";
}

/// What ByteDance's ps-lite and BytePS read besides: other transports' knobs, mostly. "0" asks for
/// nothing.
constexpr const char* kWithoutMeaning[] = {
    "DMLC_ENABLE_RDMA",
    "DMLC_ENABLE_UCX",
    "DMLC_NUM_PORTS",
    "DMLC_GROUP_SIZE",
    "DMLC_LOCKLESS_QUEUE",
    "DMLC_POLLING_IN_NANOSECOND",
    "DMLC_PORT",
    "DMLC_NUM_CPU_DEV",
    "DMLC_NUM_GPU_DEV",
    "BYTEPS_ZMQ_NTHREADS",
    "BYTEPS_ZMQ_MAX_SOCKET",
    "BYTEPS_ORDERED_HOSTS",
    "BYTEPS_ENABLE_MIXED_MODE",
    "BYTEPS_ENABLE_IPC",
    "BYTEPS_PARTITION_BYTES",
    "BYTEPS_ENABLE_ASYNC",
    "BYTEPS_SERVER_ENGINE_THREAD",
    "BYTEPS_SERVER_ENABLE_SCHEDULE",
    "BYTEPS_SERVER_ENGINE_BLOCKING",
    "BYTEPS_ADDRESS_POOL_SIZE",
    "BYTEPS_IPC_COPY_NUM_THREADS",
    "BYTEPS_IPC_ENABLE_ASYNC_COPY",
    "BYTEPS_RDMA_MAX_CONCURR_WR",
    "BYTEPS_RDMA_RX_DEPTH",
    "BYTEPS_RDMA_START_DEPTH",
    "BYTEPS_PRINT_RDMA_LOG",
    "BYTEPS_UCX_ERRH_ENABLE",
    "BYTEPS_UCX_FORCE_REQ_ORDER",
    "BYTEPS_UCX_QUEUE_SENDS",
    "BYTEPS_UCX_RECONNECT_TMO",
    "BYTEPS_UCX_SHORT_THRESH",
};

void read_ignored(Reader& reader, Settings& settings) {
  for (const char* const name : kWithoutMeaning) {
    const auto value = reader.text(name);
    if (value && *value != "0") settings.ignored.emplace_back(name);
  }
  if (settings.by_priority && settings.resend) {
    settings.ignored.emplace_back("DMLC_PS_VAN_TYPE=p3 with PS_RESEND");
  }
}

}  // namespace

Result<Settings> read_settings(const Find& find) {
  Settings settings;
  Reader reader(find);
  read_role(reader, settings);
  reader.number("DMLC_NUM_WORKER", 0, kNodesMax, settings.num_workers, true);
  reader.number("DMLC_NUM_SERVER", 0, kNodesMax, settings.num_servers, true);
  settings.root_host = reader.text("DMLC_PS_ROOT_URI", true).value_or("");
  read_places(reader, settings);
  reader.number("DMLC_PS_ROOT_PORT", 1, 65535, settings.root_port, true);
  reader.number("PORT", 0, 65535, settings.port);
  reader.number("PS_VERBOSE", 0, 1000, settings.verbose);
  reader.number("DMLC_PS_WATER_MARK", 0, INT32_MAX, settings.water_mark);
  int resend = 0, drop = 0;
  reader.number("PS_RESEND", 0, INT32_MAX, resend);
  settings.resend = resend != 0;
  reader.duration("PS_RESEND_TIMEOUT", 1ms, settings.resend_timeout);
  reader.number("PS_DROP_MSG", 0, 100, drop);
  settings.drop = drop / 100.0;
  reader.number("SUMCAST_PS_DROP_SEED", 0, UINT64_MAX, settings.drop_seed);
  // An interval of 0 switched heartbeats off in ps-lite, where that was the default; here silence
  // is how the death of a host is noticed, so 0 is our own interval.
  Duration interval{0};
  reader.duration("PS_HEARTBEAT_INTERVAL", 1s, interval);
  if (interval > Duration{0}) settings.heartbeat = interval;
  reader.duration("PS_HEARTBEAT_TIMEOUT", 1s, settings.silence_max);
  if (settings.silence_max == Duration{0}) settings.silence_max = Settings().silence_max;
  settings.silence_max = std::max(settings.silence_max, 4 * settings.heartbeat);
  reader.duration("SUMCAST_PS_START_TIMEOUT", 1s, settings.start_timeout);
  reader.duration("SUMCAST_PS_WAIT_TIMEOUT", 1s, settings.wait_timeout);
  reader.duration("SUMCAST_PS_BARRIER_TIMEOUT", 1s, settings.barrier_timeout);
  reader.duration("SUMCAST_SPIN", 1us, settings.spin);
  int lend = 1;
  reader.number("SUMCAST_PS_LEND", 0, 1, lend);
  settings.lend = lend != 0;
  int replicas = 0;
  reader.number("SUMCAST_PS_REPLICAS", 0, 1, replicas);
  settings.replicas = replicas != 0;
  if (settings.replicas && settings.num_servers < 2) {
    reader.note(wrong("SUMCAST_PS_REPLICAS", "1", "0 unless there are two servers or more"));
  }
  int merge = 1;
  reader.number("SUMCAST_PS_MERGE", 0, 1, merge);
  settings.merge = merge != 0;
  reader.duration("SUMCAST_PS_MERGE_WAIT", 1ms, settings.merge_wait);
  reader.number("SUMCAST_PS_MERGE_HEAT", 0, 100, settings.merge_heat);
  read_van(reader, settings);
  read_partition(reader, settings);
  settings.key_file = reader.text("SUMCAST_KEY_FILE").value_or("");
  read_ignored(reader, settings);
  if (reader.problem()) return fail(*reader.problem());
  return settings;
}

}  // namespace sumcast::ps

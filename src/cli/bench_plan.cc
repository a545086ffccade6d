#include "cli/bench_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "cli/output_file.h"
#include "lab/topology.h"
#include "numeric/codec.h"
#include "runtime/units.h"

namespace sumcast::cli {
namespace {

constexpr std::array<std::string_view, 6> kCollectives = {
    "all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter", "barrier"};
constexpr std::array<std::string_view, 3> kPeers = {"gloo", "openmpi", "mpich"};
constexpr std::array<Algorithm, 6> kAlgorithms = {
    Algorithm::kAuto, Algorithm::kInNetwork,       Algorithm::kDirect,
    Algorithm::kRing, Algorithm::kHalvingDoubling, Algorithm::kServer};
constexpr uint64_t kBytesMax = uint64_t{1} << 40;
constexpr uint32_t kIterationsMax = 1'000'000;
constexpr uint64_t kPartAlignment = 16;
constexpr Duration kSkewMax = 1s;

tl::unexpected<Error> refuse(std::string_view flag, std::string_view value,
                             std::string_view allowed) {
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("{} \"{}\": expected {}", flag, value, allowed));
}

Result<void> check_range(std::string_view flag, uint64_t value, uint64_t low, uint64_t high) {
  if (value >= low && value <= high) return {};
  return refuse(flag, std::to_string(value), fmt::format("{} to {}", low, high));
}

Result<uint64_t> parse_bytes(std::string_view flag, const std::string& text) {
  const Result<uint64_t> bytes = runtime::parse_size(text);
  if (!bytes || *bytes == 0 || *bytes > kBytesMax) {
    return refuse(flag, text, "a size such as 8, 4K or 25M, at most 1T");
  }
  return *bytes;
}

std::optional<ElementType> type_from_word(std::string_view word) {
  for (int i = 0; i < kElementTypes; ++i) {
    const auto type = static_cast<ElementType>(i);
    if (word == report::nccl_name(type) || word == name_of(type)) return type;
  }
  return std::nullopt;
}

std::optional<Reduction> reduction_from_word(std::string_view word) {
  for (int i = 0; i < kReductions - 1; ++i) {  // All but copy.
    const auto reduction = static_cast<Reduction>(i);
    if (word == report::nccl_name(reduction) || word == name_of(reduction)) return reduction;
  }
  return std::nullopt;
}

/// One value, or with "all" every one that nccl-tests would take.
Result<std::vector<ElementType>> parse_types(const std::string& text) {
  using enum ElementType;
  if (text == "all") return std::vector{kI8, kU8, kI32, kI64, kF16, kF32, kF64, kBF16};
  if (const auto type = type_from_word(text)) return std::vector{*type};
  return refuse("-d", text,
                "float, double, half, bfloat16, int8, uint8, int16, int32, int64, bool or all");
}

Result<std::vector<Reduction>> parse_reductions(const std::string& text) {
  using enum Reduction;
  if (text == "all") return std::vector{kSum, kProduct, kMax, kMin, kAvg};
  if (const auto reduction = reduction_from_word(text)) return std::vector{*reduction};
  return refuse("-o", text, "sum, prod, min, max, avg, and, or, xor or all");
}

Result<void> add_algorithms(const std::string& list, std::vector<ContenderSpec>& out) {
  for (const std::string& word : split_at_commas(list)) {
    ContenderSpec spec;
    spec.name = word;
    if (word == "wire") {
      spec.kind = ContenderSpec::Kind::kWire;
    } else {
      const auto known = std::find_if(kAlgorithms.begin(), kAlgorithms.end(),
                                      [&](Algorithm a) { return name_of(a) == word; });
      if (known == kAlgorithms.end()) {
        return refuse("--algo", word,
                      "in-network, direct, ring, halving-doubling, server, auto or wire");
      }
      spec.algorithm = *known;
    }
    out.push_back(std::move(spec));
  }
  return {};
}

Result<void> add_peers(const std::string& list, std::vector<ContenderSpec>& out) {
  for (const std::string& word : split_at_commas(list)) {
    const size_t colon = std::min(word.find(':'), word.size());
    const auto known = std::find(kPeers.begin(), kPeers.end(), word.substr(0, colon));
    if (known == kPeers.end() || colon + 1 == word.size()) {
      return refuse("--peer", word, "gloo, openmpi or mpich, each with :ALGORITHM if you like");
    }
    ContenderSpec spec;
    spec.kind = ContenderSpec::Kind::kPeer;
    spec.name = word;
    spec.peer = static_cast<PeerKind>(known - kPeers.begin());
    if (colon < word.size()) spec.peer_algorithm = word.substr(colon + 1);
    out.push_back(std::move(spec));
  }
  return {};
}

/// Of a list such as 0,2-3: is each a processor of this machine?
Result<void> check_processors(const std::string& list) {
  const auto processors = static_cast<uint64_t>(::get_nprocs_conf());
  for (size_t begin = 0; begin < list.size();) {
    const size_t end = std::min(list.find_first_of(",-", begin), list.size());
    const auto number = runtime::parse_count(list.substr(begin, end - begin));
    if (!number || *number >= processors) {
      return refuse("--cpu", list, fmt::format("processors 0 to {}", processors - 1));
    }
    begin = end + 1;
  }
  return {};
}

Result<void> check_numbers(const BenchFlags& flags) {
  struct Row {
    std::string_view flag;
    uint64_t value, low, high;
  };
  const std::array<Row, 15> rows = {{
      {"-n", flags.iterations, 1, kIterationsMax},
      {"-w", flags.warmup, 0, kIterationsMax},
      {"-a", flags.average, 0, 3},
      {"-N", flags.cycles, 1, kIterationsMax},
      {"-u", flags.unalign, 0, 64},
      {"--workers", flags.workers, 1, lab::kWorkersMax},
      {"--ranks-per-host", flags.ranks_per_host, 1, flags.workers},
      {"--flows", flags.flows, 1, 8},
      {"--window", flags.window, 0, 65535},
      {"--mtu", flags.mtu, 576, 9000},
      {"--threads", flags.daemon_threads, 0, 64},
      {"--slots", flags.daemon_slots, 0, 32768},
      {"-T", flags.timeout_s, 0, 86400},
      {"-t", flags.threads_per_rank, 1, 1},    // Every rank is a process of its own,
      {"-g", flags.devices_per_thread, 1, 1},  // and has no GPU.
  }};
  for (const Row& row : rows) {
    if (auto good = check_range(row.flag, row.value, row.low, row.high); !good) return good;
  }
  if (flags.workers % flags.ranks_per_host != 0) {
    return refuse("--ranks-per-host", std::to_string(flags.ranks_per_host),
                  fmt::format("a divisor of {} workers", flags.workers));
  }
  if (flags.step_factor == 1) return refuse("-f", "1", "2 or more");
  if (!(flags.density >= 0 && flags.density <= 1)) {
    return refuse("--density", fmt::format("{}", flags.density), "0 to 1");
  }
  const bool listed = flags.daemon_cpus.find_first_not_of("0123456789,-") == std::string::npos;
  if (!listed) return refuse("--cpu", flags.daemon_cpus, "a list such as 0,2-3");
  if (auto good = check_processors(flags.daemon_cpus); !good) return good;
  if (auto writable = check_writable(flags.json_file); !writable) {
    return fail(writable.error().within("-J"));
  }
  return {};
}

Result<void> parse_sizes(BenchPlan& plan) {
  const BenchFlags& flags = plan.flags;
  const auto first = parse_bytes("-b", flags.bytes_min);
  if (!first) return fail(first.error());
  const auto last = flags.bytes_max.empty() ? first : parse_bytes("-e", flags.bytes_max);
  if (!last) return fail(last.error());
  const auto step = parse_bytes("-i", flags.step_bytes);
  if (!step) return fail(step.error());
  if (*last < *first) return refuse("-e", flags.bytes_max, "at least what -b says");
  plan.bytes_min = *first;
  plan.bytes_max = *last;
  plan.step_bytes = *step;
  return {};
}

Result<void> parse_environment(BenchPlan& plan) {
  const BenchFlags& flags = plan.flags;
  const auto collective = collective_from_name(flags.collective);
  if (!collective) {
    return refuse("--collective", flags.collective,
                  fmt::format("{}", fmt::join(kCollectives, ", ")));
  }
  plan.collective = *collective;
  if (!flags.rate.empty()) {
    const auto rate = runtime::parse_rate(flags.rate);
    if (!rate || *rate < 1'000'000) {
      return refuse("--rate", flags.rate, "at least 1mbit, such as 300mbit or 1gbit");
    }
    plan.rate_bits_per_second = *rate;
    if (flags.loopback) {
      return fail(ErrorCode::kInvalidArgument, "--rate with --loopback: loopback has no links");
    }
  }
  const auto delay = runtime::parse_duration(flags.delay);
  if (!delay) return refuse("--delay", flags.delay, "a time such as 2ms");
  const auto skew = runtime::parse_duration(flags.skew);
  if (!skew || *skew > kSkewMax)
    return refuse("--skew", flags.skew, "a time up to 1s, such as 10ms");
  plan.skew = *skew;
  plan.faults.loss = flags.loss;
  plan.faults.duplicate = flags.duplicate;
  plan.faults.reorder = flags.reorder;
  plan.faults.delay = *delay;
  plan.faults.seed = flags.seed;
  plan.timeout =
      flags.timeout_s == 0 ? Duration(1h) : Duration(std::chrono::seconds(flags.timeout_s));
  return plan.faults.validate();
}

Result<void> parse_contenders(BenchPlan& plan) {
  const BenchFlags& flags = plan.flags;
  const std::string algorithms =
      flags.algorithms.empty() && flags.peers.empty() ? "in-network" : flags.algorithms;
  if (!algorithms.empty()) {
    if (auto added = add_algorithms(algorithms, plan.contenders); !added) return added;
  }
  if (!flags.peers.empty()) {
    if (auto added = add_peers(flags.peers, plan.contenders); !added) return added;
  }
  std::vector<std::string> names;
  bool has_peer = false;
  for (const ContenderSpec& spec : plan.contenders) {
    if (std::find(names.begin(), names.end(), spec.name) != names.end()) {
      return fail(ErrorCode::kInvalidArgument, fmt::format("{} is named twice", spec.name));
    }
    if (spec.kind == ContenderSpec::Kind::kPeer && !has_peer) {
      has_peer = true;
      plan.reference = spec.name;
    }
    names.push_back(spec.name);
  }
  if (!has_peer) plan.reference = names.back();
  if (!flags.reference.empty()) plan.reference = flags.reference;
  if (std::find(names.begin(), names.end(), plan.reference) == names.end()) {
    return refuse("--reference", plan.reference, fmt::format("one of {}", fmt::join(names, ", ")));
  }
  if (has_peer && flags.workers < 2) return refuse("--workers", "1", "2 or more with --peer");
  return {};
}

/// What goes together with what, for one type and reduction.
Result<void> check_combination(const BenchPlan& plan, ElementType type, Reduction reduction,
                               WireFormat wire) {
  if (!numeric::wire_format_applies(type, reduction, wire)) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("{} of {} with wire format {} is not offered",
                            report::nccl_name(reduction), report::nccl_name(type), name_of(wire)));
  }
  const BenchFlags& flags = plan.flags;
  for (const ContenderSpec& spec : plan.contenders) {
    const bool plain = type == ElementType::kF32 &&
                       (reduction == Reduction::kSum || reduction == Reduction::kCopy);
    if (spec.kind == ContenderSpec::Kind::kPeer && (!plain || flags.root != "0")) {
      return fail(
          ErrorCode::kUnsupported,
          fmt::format("--peer {}: peers are measured with float, sum and root 0", spec.name));
    }
    if (spec.kind == ContenderSpec::Kind::kWire && plan.collective != Collective::kAllReduce) {
      return fail(ErrorCode::kUnsupported, "--algo wire: only for --collective all_reduce");
    }
    if (spec.kind == ContenderSpec::Kind::kWire && flags.ranks_per_host > 1) {
      return fail(ErrorCode::kUnsupported, "--algo wire: only with one rank per host");
    }
    if (spec.kind != ContenderSpec::Kind::kAlgorithm && plan.faults.active()) {
      return fail(
          ErrorCode::kUnsupported,
          fmt::format("{}: faults are injected in Sumcast's own transport only", spec.name));
    }
    if (spec.kind != ContenderSpec::Kind::kAlgorithm && plan.skew > Duration{0}) {
      return fail(ErrorCode::kUnsupported,
                  fmt::format("{}: --skew delays Sumcast's own ranks only", spec.name));
    }
  }
  return {};
}

Result<void> make_cases(BenchPlan& plan) {
  const BenchFlags& flags = plan.flags;
  const auto types = parse_types(flags.type);
  if (!types) return fail(types.error());
  auto reductions = parse_reductions(flags.op);
  if (!reductions) return fail(reductions.error());
  const auto root = runtime::parse_count(flags.root);
  if (!root || *root >= flags.workers) {
    return refuse("-r", flags.root, fmt::format("a rank below {}", flags.workers));
  }
  const auto wire = wire_format_from_name(flags.wire);
  if (!wire) return refuse("--wire", flags.wire, "fp32, bf16, fp16, int8 or fixed");
  if (!reduces(plan.collective)) reductions = std::vector{Reduction::kCopy};
  const auto sizes =
      plan.collective == Collective::kBarrier
          ? std::vector<uint64_t>{0}
          : size_steps(plan.bytes_min, plan.bytes_max, plan.step_bytes, flags.step_factor);
  const bool is_sweep = types->size() > 1 || reductions->size() > 1;
  for (uint32_t cycle = 0; cycle < flags.cycles; ++cycle) {
    for (const ElementType type : *types) {
      for (const Reduction reduction : *reductions) {
        if (auto good = check_combination(plan, type, reduction, *wire); !good) {
          if (is_sweep && !numeric::wire_format_applies(type, reduction, *wire)) continue;
          return good;
        }
        for (const uint64_t bytes : sizes) {
          plan.cases.push_back(make_case(plan.collective, type, reduction, *wire,
                                         static_cast<uint32_t>(*root), bytes, flags.workers));
          plan.cases.back().density_millionths =
              static_cast<uint32_t>(std::lround(flags.density * BenchCase::kDense));
        }
      }
    }
  }
  if (plan.cases.empty()) return refuse("--wire", flags.wire, "a format that some -d and -o allow");
  return {};
}

}  // namespace

std::vector<std::string> split_at_commas(std::string_view list) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    parts.emplace_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::string_view name_of(Collective collective) {
  return kCollectives[static_cast<size_t>(collective)];
}

std::optional<Collective> collective_from_name(std::string_view name) {
  const auto found = std::find(kCollectives.begin(), kCollectives.end(), name);
  if (found == kCollectives.end()) return std::nullopt;
  return static_cast<Collective>(found - kCollectives.begin());
}

bool reduces(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduce ||
         collective == Collective::kReduceScatter;
}

bool has_out_of_place(Collective collective) {
  return collective != Collective::kBroadcast && collective != Collective::kBarrier;
}

double bus_factor(Collective collective, uint32_t workers) {
  const int ranks = static_cast<int>(workers);
  switch (collective) {
    case Collective::kAllReduce:
      return report::bus_bandwidth_factor(report::Collective::kAllReduce, ranks);
    case Collective::kAllGather:
    case Collective::kReduceScatter:
      return report::bus_bandwidth_factor(report::Collective::kAllGather, ranks);
    case Collective::kReduce:
    case Collective::kBroadcast:
    case Collective::kBarrier:
      break;
  }
  return 1.0;
}

std::string_view name_of(PeerKind peer) { return kPeers[static_cast<size_t>(peer)]; }

bool ContenderSpec::is_canonical() const {
  return kind == Kind::kAlgorithm && algorithm != Algorithm::kRing &&
         algorithm != Algorithm::kHalvingDoubling;
}

bool ContenderSpec::needs_daemon() const {
  return kind == Kind::kAlgorithm &&
         (algorithm == Algorithm::kInNetwork || algorithm == Algorithm::kAuto);
}

bool ContenderSpec::needs_server() const {
  return kind == Kind::kAlgorithm && algorithm == Algorithm::kServer;
}

bool BenchPlan::needs_daemon() const {
  return std::any_of(contenders.begin(), contenders.end(),
                     [](const ContenderSpec& spec) { return spec.needs_daemon(); });
}

bool BenchPlan::needs_server() const {
  return std::any_of(contenders.begin(), contenders.end(),
                     [](const ContenderSpec& spec) { return spec.needs_server(); });
}

std::vector<uint64_t> size_steps(uint64_t first, uint64_t last, uint64_t step, uint32_t factor) {
  std::vector<uint64_t> sizes;
  for (uint64_t size = first; size <= last;) {
    sizes.push_back(size);
    size = factor > 1 ? size * factor : size + step;
  }
  return sizes;
}

BenchCase make_case(Collective collective, ElementType type, Reduction reduction, WireFormat wire,
                    uint32_t root, uint64_t bytes, uint32_t workers) {
  BenchCase made{collective, type, reduction, wire, root, 0, 0, 1};
  const uint64_t width = element_bytes(type);
  if (collective == Collective::kAllGather || collective == Collective::kReduceScatter) {
    const uint64_t part = bytes / workers / kPartAlignment * kPartAlignment;
    made.count = std::max<uint64_t>(part / width, 1);
    made.bytes = made.count * width * workers;
  } else if (collective != Collective::kBarrier) {
    made.count = std::max<uint64_t>(bytes / width, 1);
    made.bytes = made.count * width;
  }
  if (made.bytes < kBlockBelowBytes) made.operations = kBlockOperations;
  return made;
}

Result<BenchPlan> plan_bench(const BenchFlags& flags) {
  BenchPlan plan;
  plan.flags = flags;
  for (const auto& step :
       {check_numbers(flags), parse_sizes(plan), parse_environment(plan), parse_contenders(plan)}) {
    if (!step) return fail(step.error());
  }
  if (auto made = make_cases(plan); !made) return fail(made.error());
  return plan;
}

}  // namespace sumcast::cli

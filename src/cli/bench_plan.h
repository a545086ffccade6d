// What a run of `sumcast bench` will do, validated in full before anything is built.
//
// Pure: flags come in as text, a plan or one line of error comes out. It knows the names of
// algorithms, peers, types and operations, and which of them go together; it does not know how any
// of them is run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/element.h"
#include "base/result.h"
#include "base/time.h"
#include "net/fault.h"
#include "report/nccl_table.h"
#include "sumcast/sumcast.hpp"

namespace sumcast::cli {

/// Text as it was typed; empty means "not given" unless a default is shown.
struct BenchFlags {
  // nccl-tests.
  std::string bytes_min = "32M";
  std::string bytes_max;  ///< Empty: as bytes_min.
  std::string step_bytes = "1M";
  uint32_t step_factor = 0;  ///< Above 1: sizes grow by it; else by step_bytes.
  uint32_t iterations = 20;
  uint32_t warmup = 1;
  uint32_t check = 1;
  std::string op = "sum";
  std::string type = "float";
  std::string root = "0";
  uint32_t average = 3;  ///< Over ranks: 0 rank 0, 1 mean, 2 min, 3 max.
  uint32_t cycles = 1;
  bool cpu_time = false;
  uint32_t timeout_s = 60;  ///< Of one operation; 0 is nccl-tests' "none", an hour here.
  uint32_t unalign = 0;     ///< Elements by which buffers are shifted.
  bool timestamps = false;
  std::string json_file;
  bool per_iteration = false;
  uint32_t threads_per_rank = 1, devices_per_thread = 1;
  // Ours.
  uint32_t workers = 4;         ///< Ranks.
  uint32_t ranks_per_host = 1;  ///< Divides `workers`; consecutive ranks share a host.
  std::string rate;
  std::string algorithms;  ///< Empty: in-network, unless peers are named.
  std::string peers;       ///< "gloo,openmpi:ring"
  std::string reference;   ///< Of the ratios; empty: the first peer, else the last algorithm.
  std::string wire = "fp32";
  std::string collective = "all_reduce";
  double density = 1;
  double loss = 0, duplicate = 0, reorder = 0;
  std::string delay = "0";
  std::string skew = "0";
  uint64_t seed = 1;
  bool insecure = false;
  uint32_t flows = 1;
  uint32_t window = 0;
  uint32_t mtu = 1500;
  uint32_t daemon_threads = 0;  ///< 0: sumcastd's own choice.
  uint32_t daemon_slots = 0;    ///< Per thread and job; 0: sumcastd's own choice.
  std::string daemon_cpus;      ///< A list as taskset takes it; empty: all.
  bool json = false;
  bool loopback = false;
};

/// The words of a list such as "gloo,openmpi:ring"; empty ones too.
std::vector<std::string> split_at_commas(std::string_view list);

enum class Collective : uint8_t {
  kAllReduce,
  kReduce,
  kBroadcast,
  kAllGather,
  kReduceScatter,
  kBarrier,
};
/// "all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter", "barrier".
std::string_view name_of(Collective collective);
std::optional<Collective> collective_from_name(std::string_view name);
/// Whether anything is added: broadcast, all-gather and barrier only move.
bool reduces(Collective collective);
/// Whether an operation may read one buffer and write another.
bool has_out_of_place(Collective collective);
/// busbw / algbw, as nccl-tests defines it; 1 for the barrier.
double bus_factor(Collective collective, uint32_t workers);

enum class PeerKind : uint8_t { kGloo, kOpenMpi, kMpich };
std::string_view name_of(PeerKind peer);

/// One column of the comparison.
struct ContenderSpec {
  enum class Kind : uint8_t { kAlgorithm, kWire, kPeer };
  Kind kind = Kind::kAlgorithm;
  std::string name;                             ///< As in rows and tables.
  Algorithm algorithm = Algorithm::kInNetwork;  ///< kAlgorithm.
  PeerKind peer = PeerKind::kGloo;              ///< kPeer.
  std::string peer_algorithm;                   ///< kPeer; empty: the best, found by trial.
  /// Sums are the canonical fold of any input; otherwise inputs are chosen so that they are exact.
  bool is_canonical() const;
  bool needs_daemon() const;
  bool needs_server() const;
};

/// One row to be measured.
struct BenchCase {
  Collective collective = Collective::kAllReduce;
  ElementType type = ElementType::kF32;
  Reduction reduction = Reduction::kSum;
  WireFormat wire = WireFormat::kNative;  ///< Of canonical algorithms; others use native.
  uint32_t root = 0;
  /// The API's `count`: per rank's part for all-gather and reduce-scatter.
  uint64_t count = 0;
  uint64_t bytes = 0;       ///< The whole tensor, a multiple of the element's size.
  uint32_t operations = 1;  ///< Back to back in one timed block.
  /// Of a rank's pieces of 64 bytes, how many are not zeros; each rank draws its own.
  uint32_t density_millionths = kDense;
  static constexpr uint32_t kDense = 1'000'000;
  bool operator==(const BenchCase&) const = default;
};

struct BenchPlan {
  BenchFlags flags;
  uint64_t bytes_min = 0, bytes_max = 0, step_bytes = 0;
  Collective collective = Collective::kAllReduce;
  uint64_t rate_bits_per_second = 0;
  net::FaultPlan faults;
  Duration skew{};  ///< Ranks begin a block up to so far apart.
  Duration timeout{};
  std::vector<ContenderSpec> contenders;
  std::string reference;
  std::vector<BenchCase> cases;

  uint32_t hosts() const { return flags.workers / flags.ranks_per_host; }
  /// Where a rank lives, as an index of hosts.
  int host_of(uint32_t rank) const { return static_cast<int>(rank / flags.ranks_per_host); }
  bool needs_daemon() const;
  bool needs_server() const;
};

/// Tensors below this are measured in blocks of kBlockOperations, as nccl-tests always does: a
/// single one is over before the last rank has been woken.
inline constexpr uint64_t kBlockBelowBytes = 64 * 1024;
inline constexpr uint32_t kBlockOperations = 32;

/// Sizes from `first` to `last`, both included where a step meets it. @pre 0 < first <= last,
/// factor > 1 or step > 0.
std::vector<uint64_t> size_steps(uint64_t first, uint64_t last, uint64_t step, uint32_t factor);

/// The case for a requested size: counts are whole elements, and for all-gather and reduce-scatter
/// whole parts of 16 bytes, as in nccl-tests; never empty but for the barrier.
BenchCase make_case(Collective collective, ElementType type, Reduction reduction, WireFormat wire,
                    uint32_t root, uint64_t bytes, uint32_t workers);

/// kInvalidArgument or kUnsupported, naming the flag, its value, and what is allowed.
Result<BenchPlan> plan_bench(const BenchFlags& flags);

}  // namespace sumcast::cli

// Sumcast's C++ API: join a job, make groups, reduce tensors.
//
//   auto options = sumcast::Options::from_environment();     // torchrun, mpirun, srun, SUMCAST_*
//   auto context = sumcast::Context::create(*options);
//   auto done = (*context)->world().all_reduce(std::span(gradients));
//   if (!done) std::fprintf(stderr, "%s\n", done.error().what.c_str());
//
// Every call returns a Result; no exception leaves the library. Every wait has a deadline. When an
// operation fails, the same error is returned on all ranks, the group is unusable from then on, and
// no tensor of it is touched any more.
//
// Operations of one group must be called in the same order on all of its ranks; groups are
// independent of each other and may be used from several threads at once. Tensors are contiguous
// and belong to the caller; an asynchronous operation uses them until its Work is done.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "sumcast/element.hpp"
#include "sumcast/result.hpp"

namespace sumcast {

/// How an operation travels between hosts. All ranks of a group must name the same one (or kAuto).
/// Ranks of one host add up in shared memory first, and a group on one host alone needs no more;
/// kRing and kHalvingDoubling know no hosts and run as they are named.
enum class Algorithm : uint8_t {
  kAuto = 0,             ///< The cheapest by measurement among those with canonical sums.
  kInNetwork = 1,        ///< Summed by sumcastd: each tensor crosses each link once.
  kDirect = 2,           ///< Every rank sums its share: no daemon, two hops.
  kRing = 3,             ///< Baseline over TCP. Sums are not canonical.
  kHalvingDoubling = 4,  ///< Baseline over TCP. Sums are not canonical.
  kServer = 5,           ///< As kInNetwork, when sumcastd plays a parameter server on one link.
};
std::string_view name_of(Algorithm algorithm);  ///< "auto", "in-network", "direct", "ring", ...
std::optional<Algorithm> algorithm_from_name(std::string_view name);

/// Faults injected into what this process receives, per datagram; for tests and benches.
struct Faults {
  double loss = 0, duplicate = 0, reorder = 0;
  std::chrono::nanoseconds delay{0};
  uint64_t seed = 1;
};

struct Options {
  std::string job = "sumcast";  ///< Equal on all ranks; tells jobs of one daemon apart.
  uint32_t rank = 0;
  uint32_t world = 1;
  /// sumcastd, "host:port[,host:port]". Empty: no daemon; ranks sum among themselves.
  std::string aggregator;
  /// Without a daemon: where rank 0 listens for the others, "host:port". Rank 0 may say port 0.
  std::string coordinator;
  /// Rank 0 without a daemon: called once it listens, before it waits for the others, with the
  /// "address:port" that they are to be given as `coordinator`. On the thread of create().
  std::function<void(const std::string& address)> on_listening;
  std::string key_file;  ///< 32 bytes in hex; equal on all ranks and the daemon.
  /// The same 32 bytes, instead of a file. The library wipes its own copies; this one is yours.
  std::optional<std::array<std::byte, 32>> key;
  bool insecure = false;  ///< No keys, no tags: anybody on the network can forge sums.
  Algorithm algorithm = Algorithm::kAuto;  ///< What kAuto in a call means; kAuto: measured.
  /// How sums and averages of f32 travel where a call asks for kNative; all ranks alike.
  WireFormat wire = WireFormat::kNative;
  std::chrono::nanoseconds timeout = std::chrono::minutes(10);      ///< Of an operation.
  std::chrono::nanoseconds join_timeout = std::chrono::minutes(1);  ///< For all ranks to appear.
  /// Ranks of one host share memory and send one contribution together; true: each sends its own,
  /// as if it were a host for itself. Equal on all ranks.
  bool one_rank_per_host = false;
  std::string interface;  ///< NCCL_SOCKET_IFNAME grammar; empty: by route.
  std::string family;     ///< "AF_INET" or "AF_INET6": which addresses names resolve to.
  std::string tag;        ///< Free text shown when this rank is waited for.
  uint16_t flows = 1;     ///< UDP flows (source ports) to each daemon thread, 1..8.
  uint32_t mtu = 1500;    ///< Datagrams are probed up to this IP packet size; 576..9000.
  uint32_t window = 0;    ///< Datagrams in flight; 0: from the socket buffers.
  int socket_buffer_bytes = 212992;
  /// How long a waiting call looks for datagrams before it sleeps, giving its core to others
  /// between looks.
  std::chrono::nanoseconds spin = std::chrono::microseconds(100);
  /// Listen for a daemon's results to all at once, where the network carries multicast (only with
  /// one flow, over IPv4). Ranks may differ.
  bool multicast = true;
  /// Sparse jobs that go on without an aggregator that was lost look after so long whether it is
  /// back; 0: never. Later each time that it does not stay.
  std::chrono::nanoseconds return_after = std::chrono::seconds(1);
  Faults faults;
  /// Rank 0 without a daemon: how often members say that they live, and the silence after which one
  /// is dead. With a daemon its own configuration says.
  std::chrono::nanoseconds heartbeat = std::chrono::milliseconds(250);
  std::chrono::nanoseconds death = std::chrono::milliseconds(1500);

  /// From SUMCAST_* variables, an optional configuration file, and the launcher's variables
  /// (torchrun, Open MPI, MPICH, PMIx, Slurm). Without a daemon rank 0 listens on MASTER_ADDR, on
  /// the port after MASTER_PORT (which the launcher's own store holds). A job that has no name gets
  /// the launcher's for it. The log of this process is set up as SUMCAST_DEBUG* say.
  static Result<Options> from_environment(const std::string& config_file = "");
  /// Of the same, SUMCAST_* variables and the file only: for callers who know rank, world and
  /// meeting place otherwise. Sets up the log, too.
  static Result<Options> from_settings(const std::string& config_file = "");
};

/// What one call may choose.
struct Call {
  Algorithm algorithm = Algorithm::kAuto;
  WireFormat wire = WireFormat::kNative;              ///< kNative: what Options::wire says.
  std::optional<std::chrono::nanoseconds> timeout{};  ///< Unset: the context's.
};

class Group;

inline constexpr uint32_t kAnyRank = UINT32_MAX;  ///< A receive's peer: whoever sends first.

/// One message of an exchange.
struct Message {
  void* data = nullptr;  ///< The caller's until the exchange is done; not written to when sent.
  uint64_t bytes = 0;    ///< Equal at both ends, or both get kMismatch.
  uint32_t peer = 0;     ///< Place in the group, never this rank's own.
  /// A receive takes the oldest message of its peer and tag. The highest bit belongs to
  /// note_call().
  uint64_t tag = 0;
  uint32_t check = 0;  ///< Any number; equal at both ends, or both get kMismatch.
};

/// A table of f32 rows, equal in shape on all ranks, of which each rank contributes a few rows: the
/// sum of a sparse gradient.
struct RowSum {
  uint32_t slots = 0;                 ///< Rows of the table.
  uint16_t width = 0;                 ///< Lanes of a row, 1 .. what a datagram holds (about 340).
  std::span<const uint32_t> touched;  ///< This rank's rows: ascending, distinct, below `slots`.
  const float* rows = nullptr;        ///< f32[touched.size()][width], in that order.
  float* sums = nullptr;              ///< f32[slots][width]; rows that no rank touched stay.
  uint64_t* present = nullptr;        ///< ceil(slots / 64) words: bits of rows that some rank
                                      ///< touched are set; the others stay as they are.
  Reduction reduction = Reduction::kSum;  ///< kSum or kAvg (divided by the size of the group).
  /// Who gets the sums; unset: all. On the others `sums` and `present` are not touched.
  std::optional<uint32_t> root{};
};

/// An asynchronous operation. Movable; dropping it does not cancel anything (the tensors must
/// stay until the operation is done or the group aborted).
class Work {
 public:
  Work();
  Work(Work&&) noexcept;
  Work& operator=(Work&&) noexcept;
  ~Work();

  /// Waits until the operation is done or its timeout (or `timeout`, if that is sooner) has passed.
  /// A timeout ends the operation on all ranks and aborts the group: kTimeout, naming who is
  /// missing.
  Result<void> wait(std::optional<std::chrono::nanoseconds> timeout = std::nullopt);
  /// Has it ended, well or badly? Does not wait.
  bool is_done() const;
  /// Of an exchange that is done: the place in the group whose message came last; kAnyRank: none.
  uint32_t source() const;

  struct State;  ///< Opaque.

 private:
  friend class Group;
  friend class Context;
  std::shared_ptr<State> state_;
};

/// An ordered set of ranks that reduce together. A value that refers to shared state: copies are
/// the same group, which closes with the last of them.
class Group {
 public:
  uint32_t rank() const;  ///< This process's place in the group.
  uint32_t size() const;

  /// out[i] = reduction over ranks of in[i], for `count` elements; `in` may equal `out`.
  Result<void> all_reduce(const void* in, void* out, uint64_t count, ElementType type,
                          Reduction reduction = Reduction::kSum, const Call& call = {});
  Result<Work> all_reduce_async(const void* in, void* out, uint64_t count, ElementType type,
                                Reduction reduction = Reduction::kSum, const Call& call = {});
  /// The sum arrives at `root` only; on other ranks `out` is not touched and may be null.
  Result<void> reduce(const void* in, void* out, uint64_t count, ElementType type,
                      Reduction reduction, uint32_t root, const Call& call = {});
  Result<Work> reduce_async(const void* in, void* out, uint64_t count, ElementType type,
                            Reduction reduction, uint32_t root, const Call& call = {});
  /// `data` of the root arrives in `data` of all.
  Result<void> broadcast(void* data, uint64_t count, ElementType type, uint32_t root,
                         const Call& call = {});
  Result<Work> broadcast_async(void* data, uint64_t count, ElementType type, uint32_t root,
                               const Call& call = {});
  /// out[r * count + i] = in[i] of rank r; `in` may be out + rank * count.
  Result<void> all_gather(const void* in, void* out, uint64_t count, ElementType type,
                          const Call& call = {});
  Result<Work> all_gather_async(const void* in, void* out, uint64_t count, ElementType type,
                                const Call& call = {});
  /// out[i] = reduction over ranks of in[rank() * count + i]; `in` has size() * count elements;
  /// `out` may be in + rank * count.
  Result<void> reduce_scatter(const void* in, void* out, uint64_t count, ElementType type,
                              Reduction reduction = Reduction::kSum, const Call& call = {});
  Result<Work> reduce_scatter_async(const void* in, void* out, uint64_t count, ElementType type,
                                    Reduction reduction = Reduction::kSum, const Call& call = {});
  /// Sums the rows that the ranks touched: one contribution for each cell of the table that fits a
  /// datagram, so that nothing is sent for rows nobody touched. Each row is the canonical sum over
  /// the ranks that touched it. Through `in-network`, `server` or `direct`; wire formats native
  /// (f32, whatever Options::wire says), bf16, fp16 and int8. Ranks of one host send each for
  /// itself: the first call of a group that has such ranks opens a group beside it, with its fate.
  /// The table's memory stays the operation's until that is done.
  Result<void> sum_rows(const RowSum& table, const Call& call = {});
  Result<Work> sum_rows_async(const RowSum& table, const Call& call = {});
  Result<void> barrier(const Call& call = {});
  Result<Work> barrier_async(const Call& call = {});

  /// Sends and receives messages as one operation: point to point, and what is made of it (gather,
  /// scatter, all-to-all). Not ordered with the collectives above. Small messages are done before
  /// they are received, large ones when they have been taken. A lone receive that times out is
  /// withdrawn, and the group goes on; all other failures end it.
  ///
  /// @param on_done  called once when it has ended, from any thread, before or after this returns;
  ///                 must not block. May be empty.
  Result<Work> exchange_async(std::span<const Message> sends, std::span<const Message> receives,
                              const Call& call = {}, std::function<void()> on_done = {});
  Result<void> exchange(std::span<const Message> sends, std::span<const Message> receives,
                        const Call& call = {});

  /// Bounds what the messages of each other rank may have on their way to this one, from now on, to
  /// about so many bytes; not below four packets. For a rank to which all send at the same moment:
  /// the queue in front of it has to hold what all of them have under way (incast). Senders wait
  /// meanwhile.
  void bound_inflow(uint64_t bytes);

  /// Says what this rank calls as `number` in the group, where all ranks make the same calls in the
  /// same order (gather, all-to-all, the collectives above if they are numbered along), before it
  /// begins. Messages with the call's tag then notice ranks that call something else: all get
  /// kMismatch, with both calls named.
  ///
  /// @param number  from 1, ascending. @param text  equal on all ranks: "gather f32 to rank 0".
  /// @return the tag for its messages; up to 255 may be added, for its parts.
  uint64_t note_call(uint32_t number, std::string_view text);

  /// Ends all operations of this rank in the group, for good: kAborted with this reason. A fence:
  /// when it returns their tensors are not touched any more. Other ranks get an error with the
  /// same reason.
  void abort(const std::string& reason);
  /// Why the group may not be used any more, if so.
  std::optional<Error> aborted() const;

  /// In place over a span of f32, f64, i8..i64, u8 or bool.
  template <typename T>
  Result<void> all_reduce(std::span<T> data, Reduction reduction = Reduction::kSum,
                          const Call& call = {});

  struct State;  ///< Opaque.

 private:
  friend class Context;
  std::shared_ptr<State> state_;
};

/// What a context has done so far; for benches and status.
struct Counters {
  uint64_t datagrams_sent = 0, datagrams_received = 0, retransmits = 0, probes = 0, asks = 0;
  uint64_t rejected = 0, send_blocked = 0, bytes_folded = 0;
  uint64_t compact = 0;  ///< Of the datagrams sent, those that left blocks of zeros out.
};

/// This process's membership in a job. Thread-safe.
class Context {
 public:
  /// Joins: blocks until all ranks are there and every path has carried datagrams both ways, at
  /// most join_timeout. Errors name who or what is missing and what to do.
  static Result<std::unique_ptr<Context>> create(const Options& options);
  /// Leaves. Bounded: never waits for peers longer than 2 s.
  ~Context();

  uint32_t rank() const;
  uint32_t size() const;
  Group& world();
  /// Called by all members, with the same ranks in the same order. `key` tells groups apart that
  /// are being made at the same time from several threads; equal on all members; empty: from the
  /// ranks.
  Result<Group> new_group(const std::vector<uint32_t>& ranks, const std::string& key = "");
  /// What this rank is doing, shown to others when they wait for it.
  void set_tag(const std::string& text);
  /// How often this member has changed its aggregator for another so far, and gone back to one:
  /// shown in the status of the daemon that it has now.
  void note_moves(uint32_t failovers, uint32_t returns);
  Counters counters() const;
  /// Bytes of payload per datagram that the world group agreed on.
  uint32_t payload_bytes() const;
  /// Why the coordinator, and with a daemon the aggregator, is gone, if it is: all groups are
  /// aborted then, or about to be, and the ranks may meet in another context.
  std::optional<Error> lost() const;
  /// The address that this rank sends from and is reached at, with port 0: "10.0.0.1:0".
  std::string address() const;

  struct Impl;  ///< Opaque.

 private:
  Context();
  static Result<void> measure_routes(Group& world, Impl& impl);
  std::shared_ptr<Impl> impl_;  // Shared with groups, which may outlive the context.
  std::unique_ptr<Group> world_;
};

template <typename T>
constexpr ElementType element_type_of() {
  if constexpr (std::is_same_v<T, float>) {
    return ElementType::kF32;
  } else if constexpr (std::is_same_v<T, double>) {
    return ElementType::kF64;
  } else if constexpr (std::is_same_v<T, bool>) {
    return ElementType::kBool;
  } else {
    static_assert(std::is_integral_v<T>, "a tensor element");
    static_assert(sizeof(T) == 1 || std::is_signed_v<T>, "u16, u32 and u64 are not offered");
    if constexpr (sizeof(T) == 1) {
      return std::is_signed_v<T> ? ElementType::kI8 : ElementType::kU8;
    } else if constexpr (sizeof(T) == 2) {
      return ElementType::kI16;
    } else if constexpr (sizeof(T) == 4) {
      return ElementType::kI32;
    } else {
      return ElementType::kI64;
    }
  }
}

template <typename T>
Result<void> Group::all_reduce(std::span<T> data, Reduction reduction, const Call& call) {
  return all_reduce(data.data(), data.data(), data.size(), element_type_of<T>(), reduction, call);
}

}  // namespace sumcast

// An aggregator shard: the shell around core::SlotPool. It owns one UDP port, verifies and parses
// what arrives, lets the pool judge it, folds when the last contribution came, and fans results
// out.
//
// The same class is a daemon thread's whole work (many jobs, one connected socket per member flow,
// so that each member has socket buffers of its own) and the shard embedded in a worker (one job,
// one socket; the worker's own contributions come and go without a datagram).
//
// The trick is what is not copied. A contribution stays in the receive buffer it arrived in until
// it is folded; the fold writes into the datagram that will carry the result; header and tag lie
// around it, so that results of neighbouring slots leave as one gathered run, tagged once, to each
// member.
//
// It does not know what tensors are, nor who decides on jobs and groups (control/).
//
// Single-threaded: every method from the thread that drives it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "auth/secret.h"
#include "base/ids.h"
#include "base/result.h"
#include "collective/datagram.h"
#include "control/plan.h"
#include "core/slot_pool.h"
#include "net/fault.h"
#include "net/poll.h"
#include "net/receive_buffers.h"
#include "net/udp.h"

namespace sumcast::collective {

/// Every datagram received ends in exactly one of these (but for `kReceived`, their sum).
enum class ShardCount : uint8_t {
  kReceived,
  kAccepted,     ///< Contributions counted, the completing ones included.
  kDuplicate,    ///< Counted before.
  kAnswered,     ///< Of the phase before: the stored result was sent again.
  kStale,        ///< Of another phase.
  kMismatch,     ///< Of another operation.
  kForeign,      ///< Indices out of range, a group that is closed, or wrong lengths.
  kMalformed,    ///< Not a header.
  kUnknownJob,   ///< No such incarnation or epoch.
  kUnauthentic,  ///< Wrong tag or sender.
  kControl,      ///< Probes, gaps, hellos, pings.
  kCount_,
};
/// Things done, outside that sum.
enum class ShardWork : uint8_t {
  kResults,
  kRepairs,
  kAsks,
  kBlocked,
  kSendFailures,
  kBytesFolded,
  kOperations,
  kPacketsSent,
  kBytesSent,
  kMulticast,      ///< Of the packets sent, those that went to all at once.
  kUntuned,        ///< Listeners that hear no more (P19).
  kAsksOvertaken,  ///< Of the asks, those that no probe called for.
  kAsksOfProber,   ///< Of the asks, those of the member that probed.
  kRepairsOfGaps,  ///< Of the repairs, those of results that others had overtaken.
  kToldOnly,       ///< Probes for results on their way: the prober was told so.
  kCompact,        ///< Of the results, those that leave without blocks of zeros (P25).
  kCount_
};

struct ShardCounters {
  std::array<uint64_t, static_cast<size_t>(ShardCount::kCount_)> by_verdict{};
  std::array<uint64_t, static_cast<size_t>(ShardWork::kCount_)> work{};
  Duration operations{0};  ///< From first contribution to last sum, of all together.
  void add(ShardCount what) { ++by_verdict[static_cast<size_t>(what)]; }
  void add(ShardWork what, uint64_t n = 1) { work[static_cast<size_t>(what)] += n; }
  uint64_t operator[](ShardCount what) const { return by_verdict[static_cast<size_t>(what)]; }
  uint64_t operator[](ShardWork what) const { return work[static_cast<size_t>(what)]; }
};

struct ShardHostOptions {
  uint16_t index = 0;              ///< Shard index in the jobs it serves, without kShardBit.
  net::Endpoint listen;            ///< Port 0: any.
  bool socket_per_member = false;  ///< Daemon: a connected socket for each flow of each member.
  bool multicast = true;           ///< Results to all at once (P19).
  int socket_buffer_bytes = 212992;
  uint32_t receive_buffers = 64;  ///< Of 64 KiB each.
  net::FaultPlan faults;
};

/// A worker in the same process as the shard.
class LocalMember {
 public:
  virtual ~LocalMember() = default;
  /// A result for this member; `lanes` are valid during the call only.
  virtual void on_local_result(const wire::Header& header, std::span<const std::byte> lanes,
                               Instant now) = 0;
};

/// Told when two ranks called different operations.
using MismatchObserver = std::function<void(Incarnation, const control::Mismatch&)>;

class ShardHost {
 public:
  static Result<std::unique_ptr<ShardHost>> open(ShardHostOptions options, net::Poller& poller,
                                                 uint64_t token_base);
  ~ShardHost();

  const net::Endpoint& endpoint() const;
  /// Before the first job: what this shard calls itself (ShardHostOptions::index).
  void set_index(uint16_t index) { options_.index = index; }
  void set_mismatch_observer(MismatchObserver observer) { on_mismatch_ = std::move(observer); }

  /// @param key of the job, or none with --insecure. The plan's members become known senders.
  void start_job(const control::JobPlan& plan, const std::optional<auth::Key>& key);
  void end_job(Incarnation incarnation);
  void open_group(const control::GroupPlan& plan);
  void close_group(Incarnation incarnation, GroupId group);
  /// Nothing of this group is counted or folded any more: its addends may lie in tensors that are
  /// the caller's again.
  void poison_group(Incarnation incarnation, GroupId group);
  /// Datagrams to and from this rank are function calls. `member` outlives the job.
  void set_local_member(Incarnation incarnation, Rank rank, LocalMember* member);

  /// A contribution of the local member. `lanes` must stay as they are until the result was
  /// delivered, unless `copy`.
  void on_local_contribution(const wire::Header& header, std::span<const std::byte> lanes,
                             bool copy, Instant now);

  /// Reads the socket with this poller token (token_base..) until it is empty or a share of it is
  /// done. @return datagrams handled.
  size_t receive(uint64_t token, Instant now);
  /// Fires what is due: asks, delayed datagrams of the fault stage, sends that were refused.
  void on_timeout(Instant now);
  /// Sends what has been decided since the last flush. @return true if local results were delivered
  /// (they may have made new contributions possible).
  bool flush(Instant now);
  Instant next_deadline() const;

  const ShardCounters& counters() const { return counters_; }
  uint64_t socket_drops();
  /// By job and rank: how long the first datagrams of operations waited here for this rank's, when
  /// it was the last to come. The straggler's number.
  std::map<Incarnation, std::vector<Duration>> waited_for() const;

 private:
  struct Flow;
  struct Member;
  struct Group;
  struct Job;
  struct Outlet;
  struct Repair {
    Group* group;
    uint16_t slot;
    uint16_t member;           // kListeners: all of `outlet`.
    Outlet* outlet = nullptr;  // Of the job, which outlives its groups.
  };
  static constexpr uint16_t kListeners = UINT16_MAX;
  struct Arrival {
    std::span<const std::byte> bytes;
    net::BufferIndex buffer;  // kNoBuffer: copy what must stay.
    const net::Endpoint* from;
    Instant now;
  };

  ShardHost(ShardHostOptions options, net::Poller& poller, uint64_t token_base,
            net::UdpSocket socket);

  void on_datagram(const Arrival& in);
  void on_contribution(Job& job, const wire::Header& header, std::span<const std::byte> lanes,
                       net::BufferIndex buffer, bool copy, Instant now);
  void note_completion(Job& job, Group& group, uint16_t slot, const wire::Header& header);
  void complete(Job& job, Group& group, uint16_t slot, const wire::Header& header);
  static wire::Header result_header(const Group& group, uint16_t slot, const wire::Header& request);
  void seal_result(Job& job, Group& group, uint16_t slot, wire::Header header);
  void seal_padded(Job& job, Group& group);
  size_t seal_rows(Job& job, Group& group, std::span<const uint16_t> slots);
  size_t seal_compact(Job& job, Group& group, std::span<uint16_t> slots);
  bool make_compact(Group& group, uint16_t slot);
  /// Of a stored result.
  static wire::Header written_header(Group& group, uint16_t slot);
  static bool is_compact(Group& group, uint16_t slot);
  void report_mismatch(Job& job, Group& group, uint16_t slot, const wire::Header& header);
  void on_probe(Job& job, const wire::Header& header, std::span<const std::byte> notes,
                Instant now);
  static bool is_on_its_way(const Group& group, uint16_t slot, uint32_t heard);
  void on_gap(Job& job, Rank rank, std::span<const std::byte> notes);
  void on_hello(Job& job, const wire::Header& header, std::span<const std::byte> datagram,
                const net::Endpoint& from);
  void on_ping(Job& job, const wire::Header& header, std::span<const std::byte> payload);
  bool adopt_flow(Member& member, uint16_t flow, const net::Endpoint& from);

  Outlet* outlet_at(Job& job, const net::Endpoint& local);
  void on_tune_in(Job& job, const wire::Header& header, size_t datagram_bytes, Instant now);
  static bool serves(const Outlet& outlet, const Group& group);

  void fan_out(Group& group);
  void send_slots(Group& group, uint16_t member, Outlet* outlet, std::span<const uint16_t> slots);
  void send_run(Group& group, uint16_t member, Outlet* outlet, std::span<const uint16_t> slots);
  Flow* next_flow(Group& group, uint16_t member);
  void count_sent(const net::SendRun& run, uint32_t datagrams);
  bool deliver_locally(Group& group, std::span<const uint16_t> slots, Instant now);
  void send_asks(Group& group, std::span<const core::Ask> asks);
  void tell_probers();
  void send_small(Job& job, Member& member, uint16_t flow, wire::Header header,
                  std::span<const std::byte> payload);
  void send_signed(Job& job, net::UdpSocket& socket, const net::Endpoint* to, wire::Header header,
                   std::span<const std::byte> payload);
  net::UdpSocket& socket_of(Outlet& outlet);
  void retry_blocked();
  Group* group_of_slot(Job& job, uint16_t slot);
  uint32_t intern(const net::Endpoint& origin);

  ShardHostOptions options_;
  net::Poller& poller_;
  uint64_t token_base_;
  net::UdpSocket socket_;
  net::ReceiveBuffers buffers_;
  net::FaultStage faults_;
  std::unordered_map<net::Endpoint, uint32_t> origin_index_;  // Only with faults.
  std::vector<net::Endpoint> origins_;
  std::map<Incarnation, std::unique_ptr<Job>> jobs_;
  Job* last_job_ = nullptr;  // Most datagrams are of the same job as the one before.
  std::vector<Flow*> flows_by_token_;
  std::vector<Group*> dirty_;  // Groups with completed slots not yet fanned out.
  std::vector<Repair> repairs_, blocked_;
  std::vector<Repair> told_;  // Probed, and on its way: the prober is told with the next flush.
  Instant retry_at_ = Instant::never();
  MismatchObserver on_mismatch_;
  ShardCounters counters_;
  std::vector<net::ReceivedBatch> batches_;
};

}  // namespace sumcast::collective

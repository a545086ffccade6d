// The worker's half: the shell around core::SendWindow, and the shard embedded in the process.
//
// Who drives. Datagrams must be handled whenever an operation is under way, but a thread that waits
// would only watch another one work, at the price of two context switches. So a waiting caller
// drives the engine itself; a background thread takes over when operations are under way and nobody
// waits, or when the embedded shard may be needed by slower members. One driver at a time, under
// `mutex_`, which is released while the driver sleeps in the poller.
//
//     caller:      submit -> pump (sends) -> drive until done
//     background:        (parked)            ... (drives after kGrace without a caller)
//
// What is not copied: payloads are gathered from the tensor, between a header and a tag that lie in
// the engine's cells; two gather entries a datagram, 44 datagrams a system call.
//
// It does not know algorithms beyond routes, nor who decided on groups and aborts (control/).
#pragma once

#include <array>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <unordered_map>
#include <vector>

#include "auth/secret.h"
#include "collective/datagram.h"
#include "collective/multicast.h"
#include "collective/operation.h"
#include "collective/shard_host.h"
#include "control/messages.h"
#include "control/plan.h"
#include "core/rtt.h"
#include "core/send_window.h"
#include "core/throughput.h"
#include "net/fault.h"
#include "net/poll.h"
#include "net/udp.h"
#include "wire/compact.h"

namespace sumcast::collective {

struct EngineOptions {
  std::optional<auth::Key> key;  ///< None with --insecure.
  net::Endpoint local;           ///< Address to use, port 0.
  uint16_t flows = 1;            ///< UDP flows to each daemon thread, 1..8.
  int socket_buffer_bytes = 212992;
  uint32_t datagram_bytes_max = kDatagramBytesDefault;  ///< Paths are probed up to this.
  uint32_t window_max = 0;      ///< Datagrams in flight; 0: from socket buffers.
  Duration spin{0};             ///< How long to look for datagrams before sleeping (net/poll.h).
  bool multicast = true;        ///< Results to all at once (P19): listen for them, and send them.
  bool compact_always = false;  ///< Zeros are left out (P25) whether it pays or not: for tests.
  net::FaultPlan faults;
};

/// Totals of a worker, for benches and status.
struct EngineCounters {
  uint64_t results = 0, duplicates = 0, stale = 0, malformed = 0, unauthentic = 0;
  uint64_t contributions = 0, compact = 0, repeats = 0, probes = 0, gaps = 0, asks = 0, blocked = 0;
  uint64_t asks_crossed = 0;  ///< Of the asks, those for contributions on their way.
  uint64_t told = 0;          ///< Probed results that were on their way, by the shard's word.
  uint64_t probes_again = 0;  ///< Of the probes, those for such results that did not come.
  uint64_t send_failures = 0;
};

class Engine final : public LocalMember {
 public:
  static Result<std::unique_ptr<Engine>> create(EngineOptions options);
  ~Engine() override;

  /// Where this process's shard listens; goes into Join.
  const net::Endpoint& shard_endpoint() const { return host_->endpoint(); }

  /// After the welcome: keys, members, paths. Blocks until every shard has proved that datagrams
  /// pass both ways, or names the first that did not (P13).
  /// @param use_aggregator probe the daemon's shards; @param use_direct probe the members' shards.
  Result<void> start(const control::JobPlan& plan, Rank rank,
                     std::span<const net::Endpoint> daemon_shards, bool use_aggregator,
                     bool use_direct, Instant deadline);
  /// Of its sockets, as the kernel granted them; it may grant less than was asked for.
  int receive_buffer_bytes() const { return direct_socket_->receive_buffer_bytes(); }
  /// The largest datagram that every path carries.
  uint32_t datagram_bytes() const { return datagram_bytes_; }
  /// Slots worth having: as many datagrams as may be in flight on the busiest path.
  uint32_t slots_wanted() const;
  bool has_route(Route route) const { return !routes_[static_cast<size_t>(route)].empty(); }

  void open_group(const control::GroupPlan& plan);
  void close_group(GroupId group);

  /// Queues an operation; its sequence number and digest are filled in. Fails at once if the group
  /// was aborted. Sends what can be sent before it returns.
  /// @param deadline  when the caller stops waiting; only told to others (activity()).
  Result<OperationPtr> submit(GroupId group, Route route, wire::OperationDescriptor descriptor,
                              const void* input, void* output, const RowLists& rows = {},
                              Instant deadline = Instant::never());
  /// Drives or sleeps until the operation is done or `deadline` has passed.
  /// @return true if it is done (look at its error).
  bool wait(const Operation& operation, Instant deadline);

  /// Ends all operations of a group (or of all groups) with this error, for good. A fence: after
  /// it returns no tensor of theirs is touched any more.
  void abort(std::optional<GroupId> group, const Error& error);

  std::vector<control::GroupActivity> activity();
  /// The operation of a group by sequence number, or by digest if that is 0; empty if unknown.
  std::optional<wire::OperationDescriptor> find_operation(GroupId group, uint64_t sequence,
                                                          uint32_t digest);
  void set_user_tag(std::string tag);
  void set_mismatch_observer(MismatchObserver observer);
  /// Waits for members that are missing in the oldest open operation, for diagnosis.
  EngineCounters counters();
  ShardCounters shard_counters();

 private:
  struct Path;
  struct Window;
  struct Group;

  explicit Engine(EngineOptions options, net::Poller poller, net::WakeUp wake);

  // engine_paths.cc
  Result<void> add_aggregator_paths(std::span<const net::Endpoint> shards);
  Result<void> add_direct_paths(const control::JobPlan& plan);
  Path& add_path(Route route, uint16_t shard, const net::Endpoint& to);
  Result<void> prove_paths(Instant deadline);
  void send_hello(Path& path, uint16_t flow, uint32_t datagram_bytes);
  void send_hellos(Path& path, Instant now);
  void on_challenge(Path& path, const wire::Header& header, std::span<const std::byte> payload);
  void on_hello_ack(Path& path, const wire::Header& header);
  void size_windows(bool loops);

  // engine_multicast.cc
  void tune_in(Route route, Instant now);
  bool listen_to(Path& path);
  bool listen_to_members();
  std::unique_ptr<net::UdpSocket> listener_at(const net::Endpoint& group);
  bool add_listener(const net::UdpSocket& socket, Path* path);
  Path* heard_from(Path* path, const net::Endpoint& from) const;
  void run_tuning(Path& path, Instant now);
  void send_tuning(Path& path, Tuning what, size_t datagram_bytes);
  void on_tuned(Path& path, const wire::Header& header, size_t datagram_bytes, Instant now);
  void note_heard(Path& path, Instant now);
  void note_audible_result(Path& path, bool heard, bool probed);
  void check_hearing(Path& path, Instant now);

  // engine_send.cc
  void start_operations(Group& group);
  void pump(Instant now);
  bool send_path(Path& path, Instant now);
  static void count_repeats(Path& path, std::span<const core::Outgoing> items);
  bool send_items(Path& path, Window& window, std::span<core::Outgoing> items, Instant now);
  struct Staged {
    ChunkPlace place;
    std::span<const std::byte> lanes;  // As they travel.
    bool compact = false;              // Without blocks of zeros (P25).
  };
  using StagedRun = std::array<Staged, net::kSegmentsMax>;
  bool is_idle() const;
  wire::ZeroMap zeros_to_spare(const Operation& operation, std::span<const std::byte> lanes) const;
  size_t stage_run(Window& window, std::span<const core::Outgoing> items, StagedRun& run);
  size_t stage_rows(Window& window, std::span<const core::Outgoing> items, StagedRun& run);
  void send_remote(Path& path, Window& window, std::span<core::Outgoing> items, Instant now);
  size_t send_compact(Path& path, Window& window, std::span<core::Outgoing> items, Instant now);
  bool send_run(Path& path, Window& window, std::span<const core::Outgoing> items,
                std::span<const Staged> staged, Instant now);
  void send_local(Window& window, const core::Outgoing& item, Instant now);
  wire::Header contribution_header(const Window& window, const core::Outgoing& item,
                                   const Operation& operation, const Staged& staged) const;
  static std::span<const std::byte> rows_of(const Operation& operation, const ChunkPlace& place,
                                            std::byte* staging);
  std::span<const std::byte> lanes_of(const Operation& operation, const ChunkPlace& place,
                                      std::byte* staging);
  void send_notes(Path& path, wire::Kind kind, uint16_t slot_base,
                  std::span<const core::Want> wants);
  void send_small(Path& path, uint16_t flow, wire::Header header,
                  std::span<const std::byte> payload);

  // engine_receive.cc
  size_t receive(uint64_t token, Instant now);
  /// @param heard  the path that it came by to all at once (P19); nullptr: it came alone.
  void on_datagram(std::span<const std::byte> datagram, const Path* heard, Instant now);
  void on_result(Path& path, const wire::Header& header, std::span<const std::byte> lanes,
                 bool heard, Instant now);
  void on_ask(Path& path, const wire::Header& header, std::span<const std::byte> notes,
              Instant now);
  static bool is_on_its_way(const Window& window, uint16_t slot, uint32_t shard_heard, Instant now);
  void on_local_result(const wire::Header& header, std::span<const std::byte> lanes,
                       Instant now) override;
  static bool is_storable(const Operation& operation, const Staged& arrived);
  static void store_lanes(Operation& operation, const Staged& arrived);
  void finish(Group& group, const OperationPtr& operation, std::optional<Error> error, Instant now);

  // engine.cc
  void probe_again(Window& window);
  void run_timers(Instant now);
  Instant next_deadline() const;
  void drive_once(std::unique_lock<std::mutex>& lock, Instant until);
  void run_background();
  bool has_work() const;
  Group* find_group(GroupId id);
  Path* path_of_sender(uint16_t sender);

  EngineOptions options_;
  net::Poller poller_;
  net::WakeUp wake_;
  std::unique_ptr<ShardHost> host_;
  std::unique_ptr<net::UdpSocket> direct_socket_;  // Unconnected, to members' shards.
  net::ReceiveBuffers buffers_;
  std::vector<net::ReceivedBatch> batches_;
  net::FaultStage faults_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool driving_ = false;
  bool background_driving_ = false;
  bool background_parked_ = false;  // Asleep until it is told of work.
  bool stopping_ = false;
  bool serves_shard_ = false;
  uint32_t callers_waiting_ = 0;
  Instant driver_until_ = Instant::never();
  Instant last_driven_{};
  std::thread background_;

  Rank rank_;
  Incarnation incarnation_;
  Epoch epoch_;
  std::optional<Signer> signer_;
  std::vector<std::unique_ptr<Path>> paths_;
  std::array<std::vector<Path*>, kRoutes> routes_;
  std::vector<std::pair<Path*, uint16_t>> socket_paths_;  // By poller token, for aggregator flows.
  static constexpr uint16_t kListening = UINT16_MAX;      // In place of a flow.
  std::array<bool, kRoutes> tuned_in_{};
  std::optional<net::Endpoint> direct_group_;
  std::unique_ptr<net::UdpSocket> members_listening_;            // To the members' shards.
  std::unordered_map<net::Endpoint, Path*> members_by_address_;  // Once that is open.
  uint32_t datagram_bytes_ = 0;
  std::vector<std::unique_ptr<Group>> groups_;
  std::vector<Group*> group_of_slot_;
  std::string user_tag_;
  EngineCounters counters_;
  core::Throughput arriving_;       // Of results.
  std::vector<std::byte> staging_;  // Encoded payloads of one run.
  std::vector<std::byte> cells_;    // Headers and tags of one run.
};

}  // namespace sumcast::collective

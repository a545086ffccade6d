// The core under the interface: this process's place in a job.
//
// One of it per process, behind Postoffice, Van and Customer. It owns the connections, the crew
// that works on them, the customers' cores, and what is known about other nodes.
//
//   worker ──▶ every server, scheduler        server ──▶ scheduler        each opened by the left
//
// A connection carries frames both ways. Messages to this process itself go round it.
//
// Files: hub.cc start and stop, hub_connect.cc sockets, hub_poll.cc what the leader does,
// hub_read.cc what comes in, hub_send.cc messages, hub_control.cc joining, hub_fate.cc barriers and
// death, hub_replica.cc servers that repeat others' requests, hub_merge.cc pushes that are summed
// on their way, hub_sums.cc both together, hub_takeover.cc the death of either.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <shared_mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "auth/secret.h"
#include "base/prng.h"
#include "net/poll.h"
#include "ps/answer_book.h"
#include "ps/control.h"
#include "ps/crew.h"
#include "ps/harvest_book.h"
#include "ps/heat.h"
#include "ps/key_plan.h"
#include "ps/link.h"
#include "ps/log_gate.h"
#include "ps/merge_ledger.h"
#include "ps/merge_shard.h"
#include "ps/retainer.h"
#include "ps/rooms.h"
#include "ps/roster.h"
#include "ps/routes.h"
#include "ps/settings.h"
#include "ps/worth.h"

namespace sumcast::ps {

using LinkPtr = std::shared_ptr<Link>;

class Hub final : private Crew::Ship {
 public:
  static Hub& get();

  // Start and stop; hub.cc.
  /// Joins; blocks until all have come. Errors: what was wrong, naming who is missing.
  Result<void> start(int customer_id);
  /// Ends the transport. Others see that this node left of its own will.
  void stop();
  bool is_ready() const { return ready_.load(std::memory_order_acquire); }

  // Settings, and what follows from them.
  const Settings& settings() const { return settings_; }
  int num_workers() const { return num_workers_.load(std::memory_order_relaxed); }
  int num_servers() const { return num_servers_.load(std::memory_order_relaxed); }
  const ::ps::Node& my_node() const { return my_node_; }
  bool is_started() const { return started_.load(std::memory_order_acquire); }
  /// How this job's keys are cut (key_plan.h); by ranges until that is known.
  ::ps::Partition partition() const { return partition_.load(std::memory_order_relaxed); }
  /// Code of this process asks for ranges. Outlives Finalize.
  void note_ranges_asked() { asks_for_ranges_ = true; }
  /// The members of a group, or the id itself.
  const std::vector<int>& members(int group);

  // Customers; hub_send.cc.
  /// Its messages wait for a moment, or until open_customer: programs set handlers on objects that
  /// exist already, and others may have started earlier.
  void add_customer(const CorePtr& core);
  void open_customer(const CorePtr& core);
  void remove_customer(const CorePtr& core);
  bool has_customer(int app_id, int customer_id);
  void remember_customer(int app_id, int customer_id, ::ps::Customer* customer);
  ::ps::Customer* find_customer(int app_id, int customer_id);
  Crew& crew() { return crew_; }
  /// Where a server's part of an answer may be received (rooms.h).
  void offer_room(const Rooms::Name& name, const ::ps::SArray<char>& memory);
  Rooms& rooms() { return rooms_; }

  // Messages; hub_send.cc.
  /// 0 if the receiver is gone.
  int64_t send(const ::ps::Message& message);
  /// Writes what this thread has only queued.
  void flush();
  /// Why a request to this node or group cannot succeed any more.
  std::optional<std::string> why_lost(int group);
  /// Why one to these nodes of a group cannot.
  std::optional<std::string> why_lost(const std::vector<int>& nodes);

  // Around the handling of a request by a server's program; hub_replica.cc.
  void before_handling(const ::ps::Message& message);
  void after_handling(const ::ps::Message& message);

  // What may be summed on its way; hub_merge.cc.
  void declare_mergeable(int app, int command);
  bool is_mergeable(int app, int command);

  // Barriers and death; hub_fate.cc.
  /// @param patient  it may take as long as the job: no timeout but the others' deaths.
  Result<void> barrier(int customer_id, int group, bool patient);
  std::vector<int> dead_nodes(Duration silence);
  /// Why Wait waits: for log lines and errors.
  std::string describe_wait(::ps::Customer::Core& core, int timestamp);

 private:
  Hub();

  // hub.cc
  Result<void> open(int customer_id);

  // hub_connect.cc
  Result<void> open_sockets();
  Result<LinkPtr> connect(const std::string& host, int port, Instant deadline,
                          std::optional<int> node = std::nullopt);
  Result<void> reach(const ::ps::Node& node, Instant deadline);
  Result<void> connect_scheduler(Instant deadline);
  Result<void> connect_servers(Instant deadline);
  Result<void> connect_backup(Instant deadline);
  LinkPtr adopt(net::TcpConnection connection, auth::Side side);

  // hub.cc
  Result<void> await_roster(Instant deadline);
  void close_all();

  // hub_poll.cc
  void poll(Duration longest, std::vector<Arrival>& arrivals) override;
  void wake() override { wake_->signal(); }
  void begin_batch() override;
  void end_batch() override;
  void on_event(const net::Event& event, std::vector<Arrival>& arrivals);
  void accept_all();
  void read_link(const LinkPtr& link, std::vector<Arrival>& arrivals);
  /// False while the other's preface is not whole, or if it is a wrong one.
  bool read_preface(const LinkPtr& link);
  void watch_writable(const LinkPtr& link);
  bool on_frame(const LinkPtr& link, const FrameHeader& header, FrameBytes frame,
                const RoomPtr& room, std::vector<Arrival>& arrivals);
  RoomPtr room_for(const Link& link, const FrameHeader& header, size_t bytes);
  bool fetch_loans(const LinkPtr& link, const FrameHeader& header, ::ps::Message& message,
                   const std::vector<size_t>& lent);
  bool take_frame(const LinkPtr& link, const FrameHeader& header, FrameBytes frame,
                  const RoomPtr& room, std::vector<Arrival>& arrivals);
  void write_link(const LinkPtr& link);
  void write_dirty();
  Instant open_customers(Instant now);
  Instant tend(Instant now);
  void drop_link(const LinkPtr& link);

  // hub_send.cc
  std::optional<Arrival> addressed(::ps::Message message);
  std::vector<::ps::Message> take_unclaimed(const ::ps::Customer::Core& core);
  void pass_on(const LinkPtr& link, size_t queued);
  void await_room(const LinkPtr& link);
  LinkPtr link_to(int id);
  CorePtr find_core(int app_id, int customer_id);
  void fail_request(const ::ps::Meta& meta, const std::string& why);

  // hub_control.cc
  void say(const LinkPtr& link, const ControlMessage& message);
  /// Whether the node has died or left; under state_mutex_.
  std::optional<std::string> why_gone(int id) const;
  bool on_control(const LinkPtr& link, std::string_view text);
  bool is_of_job(int id);
  void send_hello(const LinkPtr& link);
  void on_here(const LinkPtr& link, const ControlMessage& message);
  bool on_hello(const LinkPtr& link, const ControlMessage& message);
  KeyWishes key_wishes() const;
  void on_add(const LinkPtr& link, const ControlMessage& message);
  void register_node(const LinkPtr& link, const ::ps::Node& node);
  void refuse(const LinkPtr& link, const ::ps::Node& node, const std::string& why);
  void on_nodes(const ControlMessage& message);
  void on_arrive(const BarrierArrival& who, int group);
  void release(const std::vector<BarrierArrival>& who, const std::string& failure);
  void on_token(uint64_t token, const std::string& failure);
  void on_lost(int id, const std::string& why, bool left);
  std::vector<LinkPtr> say_alive();
  void keep_alive();
  void beat(Instant now);
  void expire_barriers(Instant now);
  void introduce(const LinkPtr& link, int node);
  void break_barrier(int group, const std::string& why);
  void excuse(int server);

  // hub_replica.cc
  void start_replica();
  int backup_id() const;
  int backup_of(int server) const;
  void send_unsent_log(int node);
  void send_frame(const LinkPtr& link, FrameKind kind, const ::ps::Message& message);
  /// Nothing if the message is none of those that replicas concern.
  std::optional<int64_t> send_replicated(const ::ps::Message& message);
  void send_answer(const AnswerBook::Answer& answer);
  int64_t ask(const ::ps::Message& message);
  void excuse_request(const ::ps::Meta& meta);
  void say_handled();
  bool take_answer(int server, const ::ps::Message& message);
  bool take_replica_frame(const LinkPtr& link, const FrameHeader& header, ::ps::Message message,
                          std::vector<Arrival>& arrivals);
  bool take_logged(int server, int worker, ::ps::Message message, std::vector<Arrival>& arrivals);
  bool take_asked(::ps::Message message, std::vector<Arrival>& arrivals);
  bool on_handled(const ::ps::Message& message);
  void send_freed(const std::vector<::ps::Message>& free);
  bool suspect(int node, const std::string& why);
  std::vector<int> take_over(int server, const std::string& text);
  std::vector<int> let_go(int server);
  void do_without_backup(int server);
  void take_early(std::vector<Arrival>& arrivals);
  void on_other_lost(int id);
  void hear_no_more(int worker);
  void fence(const std::string& why);
  bool is_covered(int server);

  // hub_merge.cc
  uint64_t merging();
  void start_merge();
  void begin_merge(const std::vector<::ps::Node>& nodes);
  Result<void> connect_workers(Instant deadline);
  std::optional<int64_t> send_merged(const ::ps::Message& message);
  void send_harvests();
  Instant tend_merge(Instant now);
  int64_t commit(int handled_as);
  void answer_replay(const PartName& part);
  bool take_merge_frame(const LinkPtr& link, const FrameHeader& header, ::ps::Message message,
                        std::vector<Arrival>& arrivals);
  void take_part(int worker, int server, ::ps::Message message);
  bool take_harvest(int aggregator, ::ps::Message message, std::vector<Arrival>& arrivals);
  void take_replay(int worker, int aggregator, ::ps::Message message,
                   std::vector<Arrival>& arrivals);
  bool take_committed(int server, int number, std::vector<Arrival>& arrivals);
  void on_committed(int aggregator, int server, const RequestId& id,
                    std::vector<Arrival>& arrivals);
  bool is_whole_answer(int server, const ::ps::Message& message);
  void finish_push(int server, const RequestId& id, std::vector<Arrival>& arrivals);
  void on_merge_lost(int id);
  bool is_merge_settled();

  // hub_sums.cc
  HarvestBook& book_of(int server);
  void ask_for_harvest(Harvest& harvest);
  void ask_again(int aggregator, ::ps::Message part);
  bool is_programs(int server, const ::ps::Message& message, std::vector<Arrival>& arrivals);
  bool is_sound_sum(const ::ps::Message& message);
  HarvestBook::Verdict record_sum(int server, int worker, const ::ps::Meta& meta,
                                  bool decided = false);
  void settle_sum(int server, int worker, const RequestId& id);
  void answer_sum(int server, const PartName& part);
  bool take_own_sum(int worker, const ::ps::Meta& meta);

  Crew crew_{*this};
  Settings settings_;
  std::optional<auth::Key> key_;
  std::atomic<bool> started_{false}, ready_{false}, stopping_{false};
  std::atomic<bool> ending_{false};  ///< The scheduler's: all have come to the last barrier.
  bool connected_ = false;           ///< Under start_mutex_.
  std::atomic<int> num_workers_{0}, num_servers_{0};
  std::atomic<bool> asks_for_ranges_{false};
  std::atomic<::ps::Partition> partition_{::ps::Partition::kRanges};
  ::ps::Node my_node_;
  uint64_t epoch_ = 0;
  std::mutex start_mutex_;

  // The leader's.
  std::optional<net::Poller> poller_;
  std::optional<net::WakeUp> wake_;
  std::optional<net::TcpListener> listener_;
  std::optional<Prng> drops_;
  Instant next_beat_{}, last_beat_{};
  bool early_due_ = false;      ///< What was asked too early of a server's stand-in may be taken.
  bool notice_wanted_ = false;  ///< All that was to be summed is: a barrier may wait for it.

  std::atomic<bool> write_wanted_{false};
  Rooms rooms_;

  std::shared_mutex links_mutex_;                ///< Guards the tables of links and customers.
  std::unordered_map<uint64_t, LinkPtr> links_;  ///< By token.
  std::unordered_map<int, LinkPtr> by_node_;
  uint64_t next_token_ = 1;
  std::map<std::pair<int, int>, CorePtr> cores_;
  std::map<std::pair<int, int>, ::ps::Customer*> customers_;
  std::map<std::pair<int, int>, uint64_t> ended_at_;     ///< Numbers of those that are gone.
  std::vector<std::pair<Instant, CorePtr>> closed_;      ///< Customers to be opened, and when.
  std::map<int, std::vector<::ps::Message>> unclaimed_;  ///< By application without a customer.

  /// What replicas need to know; of each role another part.
  struct Replica {
    std::atomic<bool> on{false};
    std::mutex mutex;  ///< Guards what follows; outside links_mutex_ and state_mutex_.
    Routes routes;
    Retainer retainer;  ///< A worker's.
    LogGate gate;       ///< A server's, about its own keys; what follows is about others'.
    std::vector<::ps::Message> unsent;  ///< Log for a backup whose connection is to come.
    AnswerBook book;
    std::vector<::ps::Message> early;     ///< Asked before we were told that their server is dead.
    std::map<int, uint64_t> handled;      ///< By application: pushes of the log.
    std::set<int> unsaid;                 ///< Applications with more of them than we have said.
    std::map<int, std::string> suspects;  ///< Nodes without a connection, and why.
    bool fenced = false;                  ///< Declared dead.
  } replica_;

  /// What mergeable pushes need to know; of each role another part.
  struct Merge {
    std::atomic<bool> on{false};
    std::mutex mutex;  ///< Guards what follows; outside links_mutex_ and state_mutex_.
    std::set<std::pair<int, int>> declared;  ///< Application and command. Outlives Finalize.
    Heat heat;                               ///< What follows is a worker's.
    std::map<int, Worth> worth;              ///< By server.
    std::vector<int> aggregators;            ///< Worker processes; -1 for those that are gone.
    MergeLedger ledger;
    MergeShard shard;
    Instant next_due = Instant::never();                     ///< The shard's.
    std::vector<std::tuple<int, int, ::ps::Message>> early;  ///< Parts from before begin_merge().
    std::map<std::pair<int, int>, std::vector<RequestId>> settled;  ///< By server, aggregator.
    HarvestBook book;                                               ///< A server's.
    std::map<int, HarvestBook> others;                 ///< A server's: of those whose log it has.
    std::map<int, std::pair<int, RequestId>> replays;  ///< A worker's: parts it asks for again.
    int next_replay = 0;
  } merge_;
  uint64_t merging_of_all_ = 0;  ///< The scheduler's: what the first who came had declared.
  bool first_came_ = false;

  std::mutex state_mutex_;        ///< Guards what follows; held for moments, innermost.
  std::optional<Roster> roster_;  ///< The scheduler's.
  KeyPlan key_plan_;              ///< The scheduler's.
  std::map<int, Instant> barrier_since_;
  bool complete_ = false;
  std::vector<::ps::Node> nodes_;
  std::string refused_;  ///< Why the scheduler did not let us in.
  std::map<int, std::string> lost_;
  std::set<int> left_;
  std::set<int> covered_;  ///< Of lost_: servers for whom another one stands in.
  std::map<int, std::vector<::ps::Message>> unsent_;  ///< To nodes whose connection is to come.
  uint64_t next_token_id_ = 1;
  std::map<uint64_t, std::pair<bool, std::string>> tokens_;  ///< Barriers: over, with what failure.
  std::map<int, std::vector<int>> members_;
};

}  // namespace sumcast::ps

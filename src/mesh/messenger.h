// Messages between any two ranks of a job: send, receive, and batches of them in both directions,
// which gather, scatter and all-to-all are.
//
//   post()  --->  MatchBoard (receives)            one thread of ours reads and writes all
//   channels;
//           \-->  Outlet (sends) ---> Channel      a caller that sends writes at once what fits
//
// Streams are opened by the sender (message.h), so either rank may go first, and no two ranks wait
// for each other to connect. Opening blocks; a second thread does it.
//
// An exchange ends when all its messages are through, or with an error. A receive that no message
// has matched is withdrawn alone when its deadline passes. Anything else that fails leaves a peer
// with half of an exchange, so it aborts the group: streams close, and the peers find out. After an
// abort returns, no memory of the group's exchanges is touched any more.
//
// A peer may be ahead, and send before this rank knows the group; or late, when it has closed it.
// Streams of the former wait for a while, few of them; those of the latter are refused.
//
// Memory is bounded: what comes unasked is held back by credit (message.h), and what is queued is
// the caller's own or eager.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "mesh/channel.h"
#include "mesh/exchange.h"
#include "mesh/match_board.h"
#include "mesh/mesh.h"
#include "net/poll.h"

namespace sumcast::mesh {

/// Streams (and groups, whose streams may have ended) that wait for this rank to open a group.
inline constexpr size_t kEarlyStreamsMax = 1024;
/// For so long; and for so long late streams of a closed group are known as such. The coordinator
/// tells all members of a group at once, and uses ids again much later.
inline constexpr Duration kEarlyPatience = 30s;
/// An exchange that has waited so long is named in the log, and again after twice as long.
inline constexpr Duration kNotice = 30s;

/// Thread-safe. Its threads start with the first message.
class Messenger final : private ChannelHost {
 public:
  /// A group failed by the messenger's own finding, not by abort(). Called without locks.
  using OnFailure = std::function<void(GroupId, const Error&)>;
  /// A peer makes another call than this rank: their digests (call_digest). Once per group. Who
  /// hears it is to abort the group; until then both wait. Called without locks.
  using OnMismatch = std::function<void(GroupId, uint32_t mine, Rank peer, uint32_t theirs)>;

  /// @param mesh  outlives the messenger; not started yet, or peers' first streams are lost.
  static Result<std::unique_ptr<Messenger>> create(Mesh& mesh, OnFailure on_failure = {},
                                                   OnMismatch on_mismatch = {},
                                                   Duration notice = kNotice);
  /// No call may be under way. Ends all exchanges.
  ~Messenger() override;

  /// Exchanges of the group may begin; what peers sent ahead is there. Its id is new, or was closed
  /// by all members.
  void open_group(GroupId group);
  /// Bounds what each peer's messages of an open group may have on their way to this rank, from now
  /// on (net::bound_inflow).
  void bound_inflow(GroupId group, size_t bytes);
  /// Begins an exchange in an open group. Payloads are the caller's until it is done.
  ///
  /// @param on_done  called once, from any thread (this one included), without locks; must not
  ///                 block. May be empty.
  /// Errors: kAborted and the like if the group is, or is not open; all others come through the
  /// exchange: kTimeout, kMismatch (a message of another size or check), kUnavailable (a peer is
  /// gone).
  Result<std::shared_ptr<Exchange>> post(GroupId group, std::span<const Sending> sends,
                                         std::span<const Receiving> receives, Instant deadline,
                                         std::function<void()> on_done = {});
  /// Says what this rank calls as `number` in the group, made of messages or not, before it posts
  /// any of it. Messages of peers that belong to another call of that number are a mismatch.
  ///
  /// @param number  ascending. @return the tag of the call's messages, to which their part is
  /// added.
  uint64_t note_call(GroupId group, uint32_t number, std::string_view text);
  /// The last few hundred are known. By digest, or (`number` not 0) by number.
  struct Call {
    uint32_t number;
    std::string text;
  };
  std::optional<Call> find_call(GroupId group, uint32_t number, uint32_t digest) const;
  /// Returns when the exchange is done, at `deadline` or its own at the latest, with its error if
  /// it failed. At the deadline it is ended as in the head of this file.
  Result<void> wait(Exchange& exchange, Instant deadline);

  /// The first reason stays.
  void abort(GroupId group, const Error& reason);
  void abort_all(const Error& reason);
  /// Forgets the group. Messages that were sent eagerly still arrive, unless the peer is gone: its
  /// acknowledgement is waited for, at most two seconds.
  void close_group(GroupId group);

 private:
  using Lock = std::unique_lock<std::mutex>;
  using ExchangePtr = std::shared_ptr<Exchange>;
  using ChannelPtr = std::shared_ptr<Channel>;

  struct Outgoing {
    Sending what;
    ExchangePtr owner;
  };
  /// The way to a peer.
  struct Outlet {
    ChannelPtr channel;  ///< None until it was opened.
    bool opening = false;
    std::optional<Error> refused;    ///< There will be none: why.
    std::deque<Outgoing> waiting;    ///< For the channel.
    std::vector<uint64_t> expected;  ///< Tags that the peer is to be told, likewise.
    std::map<uint64_t, Outgoing> announced;
    uint64_t ids = 0;
    uint64_t eager_bytes = 0;  ///< Sent, not yet acknowledged.
  };
  struct NotedCall {
    uint64_t tag;
    std::string text;
  };
  struct Group {
    std::optional<Instant> early_since;  ///< Set: peers know of it, this rank does not yet.
    MatchBoard board;
    std::map<Rank, Outlet> outlets;
    std::map<Rank, ChannelPtr> inlets;
    std::optional<size_t> inflow_bytes;                     ///< Of each inlet; unset: as TCP likes.
    std::map<std::pair<Rank, uint64_t>, ReceivePtr> ready;  ///< Asked for, by sender and id.
    std::optional<Error> aborted;
    std::map<uint32_t, NotedCall> calls;  ///< By number: the last ones.
    std::map<std::pair<Rank, uint32_t>, uint64_t>
        foreign_calls;       ///< Not made here yet: their tags.
    bool disagrees = false;  ///< Told already.
  };
  struct Failure {
    GroupId group;
    Error error;
  };

  Messenger(Mesh& mesh, OnFailure on_failure, OnMismatch on_mismatch, Duration notice,
            net::Poller poller, net::WakeUp wake);

  // messenger_groups.cc: groups that open and end, and streams that peers open
  bool wants(GroupId group, Rank peer) const;
  bool is_wanted(GroupId group, Rank peer) const;
  void admit(GroupId group, Rank peer, std::shared_ptr<Stream> stream);
  void forget_early(Instant now);
  void abort_locked(GroupId group, const Error& reason);
  void fail_group(GroupId group, const Error& reason);
  void drop_channels(Group& group);
  void linger(Group& group, std::vector<ChannelPtr>& last);

  // messenger.cc: threads and exchanges
  void run();
  void run_opener();
  void watch_channels();
  void on_event(Channel& channel, const net::Event& event);
  void expire(Instant now);
  void give_up(const ExchangePtr& exchange);
  void finish(const ExchangePtr& exchange, std::optional<Error> error);
  void unlock_and_tell(Lock& lock);
  ChannelPtr add_channel(GroupId group, Rank peer, bool outgoing, std::shared_ptr<Stream> stream);
  std::string missing_text(const Group& group, const ExchangePtr& exchange) const;

  // messenger_calls.cc: calls that all ranks make
  void compare_call(GroupId id, Group& group, Rank peer, uint64_t tag);
  void ask_about_late(Instant now);
  void notice_late(Instant now);
  void expect(GroupId id, Group& group, const Receive& receive);
  void send_expected(Outlet& outlet);

  // messenger_traffic.cc: messages
  bool on_header(Channel& channel, const MessageHeader& header) override;
  void on_payload(Channel& channel) override;
  bool on_message(Group& group, Channel& channel, const MessageHeader& header);
  bool on_reply(Outlet& outlet, const MessageHeader& header);
  void post_send(GroupId id, Group& group, const Sending& what, const ExchangePtr& owner);
  void post_receive(Group& group, GroupId id, const Receiving& what, const ExchangePtr& owner);
  void request_channel(GroupId id, Rank peer, Outlet& outlet, Instant deadline);
  void transmit(Outlet& outlet, const Sending& what, const ExchangePtr& owner);
  bool agree(GroupId group, const Receive& receive, Rank from, uint64_t bytes, uint32_t check);
  void ask_for(Group& group, Rank from, uint64_t id, ReceivePtr receive);
  void credit(Channel& channel, uint64_t bytes);
  void piece_done(const ExchangePtr& owner, std::optional<Rank> from);
  void flush(Channel& channel);
  void on_broken(Channel& channel, int error_number);
  void refuse_waiting(Outlet& outlet, const Error& why);
  void suspect(const ExchangePtr& exchange, const Error& why);

  Mesh& mesh_;
  const OnFailure on_failure_;
  const OnMismatch on_mismatch_;
  const Duration notice_;
  net::Poller poller_;
  net::WakeUp wake_;
  std::vector<std::byte> staging_;

  mutable std::mutex mutex_;  // Guards what follows.
  std::map<GroupId, Group> groups_;
  std::map<GroupId, Instant> closed_;        // Not long ago.
  Instant forget_at_, ask_at_;               // When to look next for what is old, and what is late.
  std::map<uint64_t, ChannelPtr> channels_;  // By poller token.
  uint64_t next_token_ = 1;
  std::multimap<Instant, ExchangePtr> exchanges_;  // All that are not done, by deadline.
  std::optional<Error> all_aborted_;
  std::deque<std::tuple<GroupId, Rank, Instant>> to_open_;
  std::condition_variable opener_wake_, drained_;
  std::vector<std::function<void()>> to_tell_;  // Called as soon as the lock is free.
  std::vector<Failure> failures_;
  bool stopping_ = false;

  std::thread thread_, opener_;
};

}  // namespace sumcast::mesh

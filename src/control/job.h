// One job under a coordinator: who is in it, its groups, and what happens when somebody is missing.
//
// Inside the room only. One class over one state, since every mechanism asks the same questions
// (who is alive? what did it last do?); the mechanisms are files of their own:
//   job.cc            dispatch, time, words about a rank, status
//   job_join.cc       admission until the world is complete, or its deadline
//   job_groups.cc     opening with all members, slots, closing
//   job_liveness.cc   heartbeats, death, leaving, abort
//   job_inquiry.cc    late and mismatching operations: ask all members, then abort with the answer
//   job_notices.cc    whoever waits for long hears for what, long before any deadline
// Like Coordinator it is pure: `now` in, effects to the sink.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "control/coordinator.h"
#include "control/slot_ranges.h"

namespace sumcast::control {

class Job {
 public:
  /// Whether a join makes sense at all, whatever job it names.
  static Result<void> check(const CoordinatorConfig& config, const Join& join);

  /// An empty job of the name and world of `first`, which is still to be admitted.
  Job(const CoordinatorConfig& config, CoordinatorSink& sink, CoordinatorCounters& counters,
      const Join& first);

  /// Takes a rank in. On an error nothing has changed and the caller refuses the connection.
  Result<void> admit(ConnectionId connection, const Join& join, const std::string& address,
                     Instant now);
  /// Welcomes all once the last one is there.
  void start_if_complete(Instant now);

  void on_message(Rank rank, const ClientMessage& message, Instant now);
  void on_disconnected(Rank rank, ConnectionId connection, std::string_view cause, Instant now);
  void on_mismatch(const Mismatch& mismatch, Instant now);
  void on_timeout(Instant now);
  void on_pause(Duration span, Instant now);
  void on_shutdown();

  Instant next_deadline() const;
  /// Nobody is left; the job may be destroyed. A running one has said job_ended.
  bool is_over() const;
  /// Zero while ranks are missing.
  Incarnation incarnation() const { return incarnation_; }
  JobStatus status(Instant now) const;

 private:
  struct Activity {
    GroupActivity reported;
    Instant at;
    Instant completed_at;  // When a report first had that number of completed operations.
  };
  struct RankRecord {
    RankState state = RankState::kAbsent;
    std::optional<ConnectionId> connection;
    Member member;
    std::string alone;       // Why it shares memory with nobody, as it last said.
    bool went_away = false;  // Had joined and was lost before the job started.
    Instant joined_at;
    Instant join_deadline;
    Instant notice_at;  // While it waits to join.
    Instant heard_at;
    Moves moves;                             // As it last said.
    std::map<GroupId, Activity> activities;  // Of open groups only, so bounded.
  };
  struct PendingGroup {
    struct Offer {
      uint32_t payload_bytes;
      uint32_t slots;
    };
    std::vector<Rank> ranks;
    std::map<Rank, Offer> asked;
    std::optional<GroupId> leaders_of;
    Instant begun;
    Instant deadline;
    Instant notice_at;
    std::optional<Error> failure;  // Set: `asked` have been told, late comers still will be.
  };
  struct Inquiry {
    uint32_t request = 0;
    Instant deadline;
    std::set<Rank> silent;  // Whose answers are still missing.
    std::optional<Overdue> overdue;
    std::optional<Mismatch> mismatch;
    std::map<Rank, Description> answers;  // To a mismatch.
  };
  struct Group {
    GroupPlan plan;
    SlotRange slots;
    std::optional<GroupId> leaders_of;  // Two groups of one fate: an abort of either ends both.
    std::set<Rank> closed;
    std::optional<Error> aborted;
    std::optional<Inquiry> inquiry;
    uint64_t noticed = 0;  // The latest operation whose wait was told, and when to tell again.
    Instant notice_at;
  };
  using Pending = std::map<std::string, PendingGroup>;

  // job_join.cc
  void refuse_waiting(const Error& error);
  Error absence(Instant now) const;
  std::string came_and_went_text() const;

  // job_groups.cc
  void on_open(Rank rank, const OpenGroup& open, Instant now);
  Result<void> check_open(Rank rank, const OpenGroup& open) const;
  void refuse_open(Rank rank, const std::string& key, const Error& error);
  void fail_pending(const std::string& key, PendingGroup& pending, Error error);
  void expire_pending(Instant now);
  void drop_pending_of(const std::vector<Rank>& gone, const std::string& text);
  void open_group(const std::string& key, const PendingGroup& pending);
  std::vector<uint32_t> hosts_of(const std::vector<Rank>& ranks) const;
  GroupId next_group_id(const std::string& key);
  void on_close(Rank rank, GroupId group);
  void release_if_closed(GroupId group);

  // job_liveness.cc
  void on_heartbeat(Rank rank, const Heartbeat& heartbeat, Instant now);
  void note_activity(Rank rank, const std::vector<GroupActivity>& groups, Instant now);
  void check_left(Group& group);
  std::string last_operation(Rank rank, Instant now) const;
  void die(const std::vector<Rank>& ranks, std::string_view cause, Instant now);
  void on_leave(Rank rank, const Leave& leave, Instant now);
  void abort_group(Group& group, const Error& error, const std::vector<Rank>& ranks);
  void forget(const std::vector<Rank>& gone);

  // job_inquiry.cc
  void on_give_up(Rank rank, const GiveUp& give_up);
  void on_overdue(Rank rank, const Overdue& overdue, Instant now);
  void on_description(Rank rank, const Description& description, Instant now);
  void note_answer(Group& group, Rank rank, Instant now);
  void conclude(Group& group, Instant now);
  void conclude_overdue(Group& group, const Inquiry& inquiry, Instant now);
  void conclude_mismatch(Group& group, const Inquiry& inquiry);
  std::string missing_text(const Group& group, const std::vector<Rank>& missing, Instant now) const;
  std::string progress_text(const Group& group, Rank rank, Instant now) const;

  // job_notices.cc
  void notice_joining(Instant now);
  void notice_pending(Instant now);
  void notice_operation(Group& group, Rank rank, Instant now);

  // job.cc
  RankRecord& record(Rank rank) { return ranks_[rank.value]; }
  const RankRecord& record(Rank rank) const { return ranks_[rank.value]; }
  bool is_live(Rank rank) const { return record(rank).state == RankState::kLive; }
  bool is_member(const Group& group, Rank rank) const;
  Group* find_group(GroupId group, Rank member);
  std::vector<Rank> ranks_in(RankState state) const;
  std::vector<Rank> live_members(const Group& group) const;
  uint64_t posted(Rank rank, GroupId group) const;
  void tell(Rank rank, const ServerMessage& message);
  void tell(const std::vector<Rank>& ranks, const ServerMessage& message);
  void hang_up(Rank rank);
  std::string who(Rank rank) const;

  const CoordinatorConfig& config_;
  CoordinatorSink& sink_;
  CoordinatorCounters& counters_;
  std::string name_;
  Incarnation incarnation_;
  Epoch epoch_{1};
  std::vector<RankRecord> ranks_;  // Index is rank.
  SlotRanges slots_;
  Pending pending_;
  std::map<GroupId, Group> groups_;
  GroupId last_group_;
  uint32_t last_request_ = 0;
  bool ended_ = false;
};

}  // namespace sumcast::control

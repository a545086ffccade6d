// What the scheduler knows: who has come, who has which id, who waits at which barrier.
//
// A registration is a customer of a process: a worker that runs two customers registers twice and
// counts twice in DMLC_NUM_WORKER, but both have the id of the first. When all have come, they are
// sorted by host and port, and ranks are given in that order. A barrier of a group is complete when
// as many have arrived as the group has registrations.
//
// Pure: no clock, no connections. For one thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "ps/internal/message.h"

namespace sumcast::ps {

/// Someone who waits at a barrier.
struct BarrierArrival {
  int node = 0;
  int customer = 0;
  uint64_t token = 0;    ///< The node's own name for this wait.
  bool patient = false;  ///< It may take as long as the job (Finalize).
};

/// The ids of a group's registrations: those of its servers, workers and the scheduler, in order;
/// an id itself is its only member.
std::vector<int> group_members(int group, int num_servers, int num_workers);

/// Whether a node is in a group, or is what the id names. Of nodes that exist.
bool is_member(int group, int id);

/// Of the id of a node that exists.
constexpr bool is_server(int id) { return id >= 8 && id % 2 == 0; }
constexpr bool is_worker(int id) { return id >= 9 && id % 2 == 1; }

/// "server 1 (id 10)", "the scheduler".
std::string node_text(int id);

class Roster {
 public:
  Roster(int num_servers, int num_workers);

  /// A customer of a process has come. Errors: kMismatch (more of a role than the job has, told
  /// with what to check), kInvalidArgument (registered twice).
  Result<void> add(const ::ps::Node& node);
  /// A process has gone before all had come: another may take its place.
  void remove(const std::string& host, int port);
  bool is_complete() const { return complete_; }
  /// All processes with their ids, the scheduler not among them. Valid once complete.
  const std::vector<::ps::Node>& nodes() const { return nodes_; }
  /// "1 of 2 servers and 0 of 3 workers have come".
  std::string missing_text() const;

  /// Returns all who have waited, when this was the last one.
  std::vector<BarrierArrival> arrive(int group, const BarrierArrival& who);
  /// Gives a barrier up: who has waited so far; what is said of those missing is in `text`.
  std::vector<BarrierArrival> break_up(int group, std::string* text);
  /// From now on barriers do without this node. Returns those that are complete by that, by group.
  std::map<int, std::vector<BarrierArrival>> excuse(int node);
  /// Groups with a barrier under way in which this node is missing.
  std::vector<int> barriers_without(int node) const;

 private:
  void assign();
  bool is_reached(int group) const;

  const int num_servers_, num_workers_;
  std::vector<::ps::Node> registered_;
  std::vector<::ps::Node> nodes_;
  std::map<int, int> shared_;  ///< An id without a process: the id of the process that has it.
  std::set<int> excused_;
  bool complete_ = false;
  std::map<int, std::vector<BarrierArrival>> barriers_;  ///< By group.
};

}  // namespace sumcast::ps

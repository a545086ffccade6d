#include "ps/roster.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <tuple>

#include "ps/base.h"
#include "ps/internal/postoffice.h"

namespace sumcast::ps {
namespace {

/// "a, b and 7 others".
std::string list_text(std::vector<std::string> names) {
  constexpr size_t kNamed = 10;
  if (names.size() <= kNamed) return fmt::format("{}", fmt::join(names, ", "));
  const size_t others = names.size() - kNamed;
  names.resize(kNamed);
  return fmt::format("{} and {} others", fmt::join(names, ", "), others);
}

}  // namespace

std::vector<int> group_members(int group, int num_servers, int num_workers) {
  if (group >= 8) return {group};
  std::vector<int> ids;
  if ((group & ::ps::kServerGroup) != 0) {
    for (int i = 0; i < num_servers; ++i) ids.push_back(::ps::Postoffice::ServerRankToID(i));
  }
  if ((group & ::ps::kWorkerGroup) != 0) {
    for (int i = 0; i < num_workers; ++i) ids.push_back(::ps::Postoffice::WorkerRankToID(i));
  }
  if ((group & ::ps::kScheduler) != 0) ids.push_back(::ps::kScheduler);
  return ids;
}

bool is_member(int group, int id) {
  if (group >= 8) return group == id;
  const int own = id == ::ps::kScheduler ? ::ps::kScheduler
                  : id % 2 == 0          ? ::ps::kServerGroup
                                         : ::ps::kWorkerGroup;
  return (group & own) != 0;
}

std::string node_text(int id) {
  if (id == ::ps::kScheduler) return "the scheduler";
  return fmt::format("{} {} (id {})", id % 2 == 0 ? "server" : "worker",
                     ::ps::Postoffice::IDtoRank(id), id);
}

Roster::Roster(int num_servers, int num_workers)
    : num_servers_(num_servers), num_workers_(num_workers) {}

Result<void> Roster::add(const ::ps::Node& node) {
  const bool is_server = node.role == ::ps::Node::SERVER;
  const int most = is_server ? num_servers_ : num_workers_;
  const auto same_role = std::count_if(registered_.begin(), registered_.end(),
                                       [&](const auto& other) { return other.role == node.role; });
  if (complete_ || same_role >= most) {
    return fail(ErrorCode::kMismatch,
                fmt::format("the job has all of its {} {}s already; check {} and that no process "
                            "of an earlier job still runs",
                            most, is_server ? "server" : "worker",
                            is_server ? "DMLC_NUM_SERVER" : "DMLC_NUM_WORKER"));
  }
  for (const auto& other : registered_) {
    if (std::tie(other.hostname, other.port, other.customer_id) ==
        std::tie(node.hostname, node.port, node.customer_id)) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("customer {} of {}:{} has started twice", node.customer_id,
                              node.hostname, node.port));
    }
  }
  registered_.push_back(node);
  if (registered_.size() == static_cast<size_t>(num_servers_) + static_cast<size_t>(num_workers_)) {
    assign();
  }
  return {};
}

void Roster::remove(const std::string& host, int port) {
  if (complete_) return;
  std::erase_if(registered_,
                [&](const ::ps::Node& node) { return node.hostname == host && node.port == port; });
}

void Roster::assign() {
  std::sort(registered_.begin(), registered_.end(), [](const auto& a, const auto& b) {
    return std::tie(a.hostname, a.port, a.customer_id) <
           std::tie(b.hostname, b.port, b.customer_id);
  });
  int servers = 0, workers = 0;
  for (::ps::Node& node : registered_) {
    const int id = node.role == ::ps::Node::SERVER ? ::ps::Postoffice::ServerRankToID(servers++)
                                                   : ::ps::Postoffice::WorkerRankToID(workers++);
    if (!nodes_.empty() && nodes_.back().hostname == node.hostname &&
        nodes_.back().port == node.port) {
      shared_[id] = nodes_.back().id;
      continue;
    }
    node.id = id;
    nodes_.push_back(node);
  }
  complete_ = true;
}

std::string Roster::missing_text() const {
  const auto servers = std::count_if(registered_.begin(), registered_.end(), [](const auto& node) {
    return node.role == ::ps::Node::SERVER;
  });
  std::vector<std::string> here;
  for (const auto& node : registered_) {
    here.push_back(fmt::format("{} {}:{}", node.role == ::ps::Node::SERVER ? "server" : "worker",
                               node.hostname, node.port));
  }
  const char* const separator = here.empty() ? "" : ": ";
  return fmt::format("{} of {} servers and {} of {} workers have come{}{}", servers, num_servers_,
                     static_cast<ptrdiff_t>(registered_.size()) - servers, num_workers_, separator,
                     list_text(std::move(here)));
}

std::vector<BarrierArrival> Roster::arrive(int group, const BarrierArrival& who) {
  if (excused_.count(who.node) != 0) return {};
  barriers_[group].push_back(who);
  if (!is_reached(group)) return {};
  auto all = std::move(barriers_[group]);
  barriers_.erase(group);
  return all;
}

bool Roster::is_reached(int group) const {
  const auto members = group_members(group, num_servers_, num_workers_);
  const auto needed = std::count_if(members.begin(), members.end(),
                                    [&](int id) { return excused_.count(id) == 0; });
  return static_cast<ptrdiff_t>(barriers_.at(group).size()) >= needed;
}

std::map<int, std::vector<BarrierArrival>> Roster::excuse(int node) {
  excused_.insert(node);
  std::map<int, std::vector<BarrierArrival>> complete;
  for (auto& [group, arrived] : barriers_) {
    std::erase_if(arrived, [&](const BarrierArrival& who) { return who.node == node; });
    if (!arrived.empty() && is_reached(group)) complete[group] = arrived;
  }
  for (const auto& [group, arrived] : complete) barriers_.erase(group);
  return complete;
}

std::vector<BarrierArrival> Roster::break_up(int group, std::string* text) {
  const auto it = barriers_.find(group);
  if (it == barriers_.end()) return {};
  // A process with several customers is there as often as it has registered.
  std::multiset<int> missing;
  for (int id : group_members(group, num_servers_, num_workers_)) {
    const auto shared = shared_.find(id);
    if (excused_.count(id) == 0) missing.insert(shared != shared_.end() ? shared->second : id);
  }
  for (const BarrierArrival& who : it->second) {
    if (const auto found = missing.find(who.node); found != missing.end()) missing.erase(found);
  }
  std::vector<std::string> names;
  for (int id : missing) names.push_back(node_text(id));
  *text =
      fmt::format("{} did not come to the barrier of group {}", list_text(std::move(names)), group);
  auto arrived = std::move(it->second);
  barriers_.erase(it);
  return arrived;
}

std::vector<int> Roster::barriers_without(int node) const {
  std::vector<int> groups;
  if (excused_.count(node) != 0) return groups;
  for (const auto& [group, arrived] : barriers_) {
    const auto members = group_members(group, num_servers_, num_workers_);
    const auto has = [&](const BarrierArrival& who) { return who.node == node; };
    if (std::find(members.begin(), members.end(), node) != members.end() &&
        std::none_of(arrived.begin(), arrived.end(), has)) {
      groups.push_back(group);
    }
  }
  return groups;
}

}  // namespace sumcast::ps

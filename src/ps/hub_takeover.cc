// When a node dies whose work others go on with: a server with a replica, a worker that sums.
//
// Only the scheduler declares such a node dead. Whoever loses its connection to one tells the
// scheduler, and waits; so nobody stands in for a server that others still follow, and nothing is
// sent again while its sum is on the way. A server that was declared dead though it lives cannot
// answer: its backup does not count for it any more.
#include <fmt/format.h>

#include <algorithm>

#include "ps/customer_core.h"
#include "ps/hub.h"
#include "ps/internal/postoffice.h"

namespace sumcast::ps {
namespace {

int rank_of(int id) { return ::ps::Postoffice::IDtoRank(id); }
int server_id(int rank) { return ::ps::Postoffice::ServerRankToID(rank); }

}  // namespace

/// A SimpleApp's request to a server that has died: the others answer for its group.
void Hub::excuse_request(const ::ps::Meta& meta) {
  const CorePtr core = find_core(meta.app_id, meta.customer_id);
  if (core == nullptr) return;
  {
    const std::lock_guard lock(core->mutex);
    if (core->tracker.group(meta.timestamp) < 8) {
      core->tracker.add(meta.timestamp, 1);
    } else {
      core->tracker.fail(meta.timestamp, node_text(meta.recver) + " has died");
    }
  }
  crew_.notify();
}

/// Our connection to a node is gone, for which others do what it did if it is dead. The scheduler
/// says whether it is. False if it cannot.
bool Hub::suspect(int node, const std::string& why) {
  const bool matters = is_server(node) ? replica_.on.load() : is_worker(node) && merge_.on;
  if (!matters || settings_.role == ::ps::Node::SCHEDULER || stopping_) return false;
  {
    const std::lock_guard lock(state_mutex_);
    if (lost_.count(node) != 0) return true;  // It has been said already.
  }
  const LinkPtr scheduler = link_to(::ps::kScheduler);
  if (scheduler == nullptr || why_lost(::ps::kScheduler)) return false;
  {
    const std::lock_guard lock(replica_.mutex);
    if (is_server(node) && !replica_.routes.is_alive(rank_of(node))) return true;
    replica_.suspects.emplace(node, why);
  }
  ControlMessage message;
  message.kind = "suspect";
  message.node = node;
  message.why = fmt::format("{} has lost its connection to it: {}", node_text(my_node_.id), why);
  say(scheduler, message);
  return true;
}

/// A server has died. Says whose keys are lost by it; under one lock with what follows from it.
std::vector<int> Hub::take_over(int server, const std::string& text) {
  std::vector<int> unanswered;
  std::vector<::ps::Meta> excused;
  const bool is_led = settings_.role == ::ps::Node::SCHEDULER || !why_lost(::ps::kScheduler);
  {
    const std::lock_guard lock(replica_.mutex);
    replica_.suspects.erase(server);
    if (!is_led) return {server};
    for (const int rank : replica_.routes.on_lost(rank_of(server))) {
      unanswered.push_back(server_id(rank));
    }
    const int at = replica_.routes.at(rank_of(server));
    {
      const std::lock_guard state(state_mutex_);
      lost_[server] = text;
      if (at >= 0) covered_.insert(server);
      for (const int id : unanswered) covered_.erase(id);
    }
    if (settings_.role == ::ps::Node::WORKER && at >= 0) {
      for (::ps::Message& message : replica_.retainer.unanswered(server)) {
        if (message.meta.simple_app) {
          excused.push_back(message.meta);
          replica_.retainer.on_answer(server, id_of(message.meta), 0);
          continue;
        }
        message.meta.sender = server;
        send_frame(link_to(server_id(at)), FrameKind::kStandIn, message);
      }
    }
    if (settings_.role == ::ps::Node::SERVER) {
      do_without_backup(server);
      early_due_ = true;
    }
  }
  for (const ::ps::Meta& meta : excused) excuse_request(meta);
  // It hears of us no more; but the scheduler tells it first, should it live.
  if (settings_.role != ::ps::Node::SCHEDULER) {
    if (const LinkPtr link = link_to(server)) drop_link(link);
  }
  return unanswered;
}

/// If that server repeats what we do, nobody does any more. Under the replica's lock.
void Hub::do_without_backup(int server) {
  if (settings_.role != ::ps::Node::SERVER || server != backup_id()) return;
  if (!replica_.gate.has_backup()) return;
  send_freed(replica_.gate.open());
  replica_.unsent.clear();
}

/// A server has left by its own will: nobody stands in for it. Says whose keys are lost by it.
std::vector<int> Hub::let_go(int server) {
  std::vector<int> unanswered;
  const std::lock_guard lock(replica_.mutex);
  replica_.suspects.erase(server);
  for (const int rank : replica_.routes.on_left(rank_of(server))) {
    unanswered.push_back(server_id(rank));
  }
  do_without_backup(server);
  const std::lock_guard state(state_mutex_);
  for (const int id : unanswered) covered_.erase(id);
  return unanswered;
}

/// The leader's: what came before the news that its server is dead goes behind all that was read
/// until then, the rest of that server's log, and before what comes later.
void Hub::take_early(std::vector<Arrival>& arrivals) {
  early_due_ = false;
  std::vector<::ps::Message> early;
  {
    const std::lock_guard lock(replica_.mutex);
    early.swap(replica_.early);
  }
  for (::ps::Message& message : early) (void)take_asked(std::move(message), arrivals);
}

/// A worker, or the scheduler, has died or left.
void Hub::on_other_lost(int id) {
  std::map<int, std::string> suspects;
  {
    const std::lock_guard lock(replica_.mutex);
    replica_.suspects.erase(id);
    if (id == ::ps::kScheduler) {
      suspects.swap(replica_.suspects);
    } else {
      replica_.book.on_worker_lost(id);
      std::erase_if(replica_.early, [&](const auto& asked) { return asked.meta.sender == id; });
    }
  }
  // Nobody will tell any more whether they live; without us they do not.
  for (const auto& [node, why] : suspects) on_lost(node, why, false);
}

/// What a dead worker had sent and nobody has read yet, others do in its place, or it was not
/// acknowledged. What was known of its requests is forgotten: they would count again.
void Hub::hear_no_more(int worker) {
  if (settings_.role == ::ps::Node::SCHEDULER || (!replica_.on && !merge_.on)) return;
  if (const LinkPtr link = link_to(worker)) drop_link(link);
}

bool Hub::is_covered(int server) {
  const std::lock_guard lock(state_mutex_);
  return covered_.count(server) != 0;
}

/// A node has died or left: what that means for sums.
void Hub::on_merge_lost(int id) {
  const std::lock_guard lock(merge_.mutex);
  if (is_worker(id)) {
    merge_.book.on_worker_lost(id);
    for (auto& [server, book] : merge_.others) book.on_worker_lost(id);
    std::replace(merge_.aggregators.begin(), merge_.aggregators.end(), id, -1);
    merge_.shard.on_worker_lost(id);
    for (::ps::Message& part : merge_.ledger.take_parts(id)) {
      if (replica_.on) {
        ask_again(id, std::move(part));
        continue;
      }
      part.meta.sender = id;
      send_frame(link_to(part.meta.recver), FrameKind::kReplay, part);
    }
    send_harvests();
  } else if (is_server(id) && !is_covered(id)) {
    merge_.ledger.on_server_lost(id);
    merge_.shard.on_server_lost(id);
  }
}

/// We were declared dead, though we live: nobody may hear of us any more.
void Hub::fence(const std::string& why) {
  {
    const std::lock_guard lock(replica_.mutex);
    replica_.fenced = true;
  }
  on_lost(::ps::kScheduler, "this process was declared dead: " + why, false);
}

}  // namespace sumcast::ps

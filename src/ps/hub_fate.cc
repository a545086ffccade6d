// Barriers, and the death of nodes.
#include <fmt/format.h>

#include <algorithm>

#include "net/descriptor.h"
#include "ps/customer_core.h"
#include "ps/hub.h"
#include "ps/internal/postoffice.h"
#include "runtime/log.h"

namespace sumcast::ps {
namespace {

using runtime::Subsystem;

double seconds(Duration span) { return std::chrono::duration<double>(span).count(); }

}  // namespace

Result<void> Hub::barrier(int customer_id, int group, bool patient) {
  const auto& ids = members(group);
  if (ids.size() <= 1) return {};
  if (group >= 8 || std::find(ids.begin(), ids.end(), my_node_.id) == ids.end()) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("Barrier of group {}: {} is no member of it", group, node_text(my_node_.id)));
  }
  if (merge_.on) {  // What was pushed is there when others come out of the barrier.
    const Duration limit = settings_.wait_timeout;
    const bool settled = crew_.wait(
        nullptr, [this] { return is_merge_settled(); },
        limit > Duration{0} ? net::monotonic_now() + limit : Instant::never());
    if (!settled) {
      return fail(ErrorCode::kTimeout,
                  fmt::format("pushes from before the barrier were not applied within {} s "
                              "(SUMCAST_PS_WAIT_TIMEOUT)",
                              seconds(limit)));
    }
  }
  uint64_t token = 0;
  {
    const std::lock_guard lock(state_mutex_);
    token = next_token_id_++;
    tokens_[token] = {false, ""};
  }
  if (settings_.role == ::ps::Node::SCHEDULER) {
    on_arrive({my_node_.id, customer_id, token, patient}, group);
  } else if (const LinkPtr scheduler = link_to(::ps::kScheduler)) {
    ControlMessage arrive;
    arrive.kind = "arrive";
    arrive.customer = customer_id;
    arrive.group = group;
    arrive.token = token;
    arrive.patient = patient ? 1 : 0;
    say(scheduler, arrive);
    flush();
  }
  std::string failure;
  const auto over = [&] {
    const std::lock_guard lock(state_mutex_);
    failure = tokens_[token].second;
    if (tokens_[token].first) return true;
    if (settings_.role == ::ps::Node::SCHEDULER) return false;
    // The scheduler ends barriers; without it nobody does.
    const auto it = lost_.find(::ps::kScheduler);
    if (it != lost_.end()) {
      failure = it->second;
    } else if (left_.count(::ps::kScheduler) != 0) {
      failure = "the scheduler has left the job";
    }
    return !failure.empty();
  };
  crew_.wait(nullptr, over, Instant::never());
  const std::lock_guard lock(state_mutex_);
  tokens_.erase(token);
  if (failure.empty()) return {};
  return fail(ErrorCode::kAborted, failure);
}

void Hub::on_arrive(const BarrierArrival& who, int group) {
  std::vector<BarrierArrival> all;
  bool broken = false;
  {
    const std::lock_guard lock(state_mutex_);
    if (!who.patient) barrier_since_.try_emplace(group, net::monotonic_now());
    all = roster_->arrive(group, who);
    PS_VLOG(1) << "Barrier of group " << group << ": node " << who.node
               << (all.empty() ? " waits" : " is the last");
    if (!all.empty()) {
      barrier_since_.erase(group);
      // Who was released may start again before we have ended: it has to wait for the next job.
      if (who.patient) ending_ = true;
    } else {
      const auto misses = [&](int node) {
        const auto groups = roster_->barriers_without(node);
        return std::find(groups.begin(), groups.end(), group) != groups.end();
      };
      broken = std::any_of(left_.begin(), left_.end(), misses) ||
               std::any_of(lost_.begin(), lost_.end(), [&](const auto& lost) {
                 // Who is covered is about to be excused, which looks at this barrier again.
                 return covered_.count(lost.first) == 0 && misses(lost.first);
               });
    }
  }
  if (broken) {
    break_barrier(group, "");
  } else if (!all.empty()) {
    release(all, "");
  }
}

void Hub::release(const std::vector<BarrierArrival>& who, const std::string& failure) {
  for (const BarrierArrival& arrival : who) {
    if (arrival.node == my_node_.id) continue;
    ControlMessage pass;
    pass.kind = "pass";
    pass.token = arrival.token;
    pass.why = failure;
    if (const LinkPtr link = link_to(arrival.node)) say(link, pass);
  }
  // Ours last, when all is on its way: the thread that it releases may end the process.
  flush();
  for (const BarrierArrival& arrival : who) {
    if (arrival.node == my_node_.id) on_token(arrival.token, failure);
  }
}

void Hub::break_barrier(int group, const std::string& why) {
  std::string text;
  std::vector<BarrierArrival> waiting;
  {
    const std::lock_guard lock(state_mutex_);
    waiting = roster_->break_up(group, &text);
    barrier_since_.erase(group);
    for (const auto& [id, reason] : lost_) text += "; " + reason;
    for (int id : left_) text += "; " + node_text(id) + " has left the job";
  }
  release(waiting, text + why);
}

void Hub::on_token(uint64_t token, const std::string& failure) {
  {
    const std::lock_guard lock(state_mutex_);
    const auto it = tokens_.find(token);
    if (it != tokens_.end()) it->second = {true, failure};
  }
  crew_.notify();
}

/// A node is gone, by its own will or not. What needs it fails.
void Hub::on_lost(int id, const std::string& why, bool left) {
  if (stopping_) return;
  std::string text = left ? node_text(id) + " has left the job"
                          : fmt::format("{} has died: {}", node_text(id), why);
  std::vector<int> broken;
  {
    const std::lock_guard lock(state_mutex_);
    if (left_.count(id) != 0 || lost_.count(id) != 0) return;
    unsent_.erase(id);
    if (why.find(" has died: ") != std::string::npos) text = why;  // As the scheduler told it.
    if (left) left_.insert(id);
  }
  rooms_.withdraw_server(id);
  std::vector<int> unanswered = {id};  // Nodes to which requests fail.
  if (!left) {
    runtime::log_warn(Subsystem::kControl, "ps: {}", text);
    if (replica_.on && is_server(id)) unanswered = take_over(id, text);
    const std::lock_guard lock(state_mutex_);
    lost_[id] = text;
  } else if (replica_.on && is_server(id)) {
    unanswered = let_go(id);
  }
  if (std::find(unanswered.begin(), unanswered.end(), id) == unanswered.end()) {
    excuse(id);
  } else {
    const std::lock_guard lock(state_mutex_);
    if (roster_) broken = roster_->barriers_without(id);
  }
  std::vector<CorePtr> cores;
  std::vector<LinkPtr> others;
  {
    const std::shared_lock lock(links_mutex_);
    for (const auto& [key, core] : cores_) cores.push_back(core);
    for (const auto& [node, link] : by_node_) others.push_back(link);
  }
  for (const CorePtr& core : cores) {
    const std::lock_guard lock(core->mutex);
    for (const int node : unanswered) {
      const auto holds = [&](int group) { return is_member(group, node); };
      core->tracker.fail_if_asked(node, holds, text);
    }
  }
  if (settings_.role == ::ps::Node::SCHEDULER) {
    if (!left) {
      ControlMessage lost;
      lost.kind = "lost";
      lost.node = id;
      lost.why = text;
      for (const LinkPtr& link : others) say(link, lost);
    }
    for (int group : broken) break_barrier(group, "");
  }
  if (merge_.on) {
    on_merge_lost(id);
    for (const int node : unanswered) {
      if (node != id) on_merge_lost(node);
    }
  }
  if (is_worker(id) || id == ::ps::kScheduler) on_other_lost(id);
  if (!left && is_worker(id)) hear_no_more(id);
  crew_.notify();
}

/// Another server stands in for this one: barriers do without it.
void Hub::excuse(int server) {
  runtime::log_warn(Subsystem::kControl, "ps: another server stands in for {}", node_text(server));
  std::map<int, std::vector<BarrierArrival>> complete;
  {
    const std::lock_guard lock(state_mutex_);
    if (!roster_) return;
    complete = roster_->excuse(server);
    for (const auto& [group, arrived] : complete) {
      barrier_since_.erase(group);
      if (arrived.front().patient) ending_ = true;
    }
  }
  for (const auto& [group, arrived] : complete) release(arrived, "");
}

/// Tells those who listen for it that we live; returns their links.
std::vector<LinkPtr> Hub::say_alive() {
  const bool is_scheduler = settings_.role == ::ps::Node::SCHEDULER;
  std::vector<LinkPtr> links;
  {
    const std::shared_lock lock(links_mutex_);
    for (const auto& [token, link] : links_) {
      if (is_scheduler || link->node.load() == ::ps::kScheduler) links.push_back(link);
    }
  }
  std::erase_if(links, [](const LinkPtr& link) { return !link->is_open(); });
  ControlMessage alive;
  alive.kind = "beat";
  for (const LinkPtr& link : links) say(link, alive);
  return links;
}

/// The leader's, within work that takes long. Whether others live is looked at afterwards.
void Hub::keep_alive() {
  const Instant now = net::monotonic_now();
  if (now < next_beat_) return;
  next_beat_ = now + settings_.heartbeat;
  (void)say_alive();
  flush();
}

/// Says that we live, and looks who has been silent for too long.
void Hub::beat(Instant now) {
  // If this process itself stood still, silence proves nothing.
  const bool stalled = last_beat_.is_set() && now - last_beat_ > settings_.silence_max / 2;
  last_beat_ = now;
  for (const LinkPtr& link : say_alive()) {
    const Duration silence = now - Instant{link->heard_ns.load(std::memory_order_relaxed)};
    if (stalled || (silence > settings_.silence_max && link->has_unread())) {
      link->heard_ns.store(now.ns, std::memory_order_relaxed);
    } else if (silence > settings_.silence_max && link->node.load() >= 0) {
      const int node = link->node.load();
      on_lost(node, fmt::format("nothing was heard of it for {:.1f} s", seconds(silence)), false);
      drop_link(link);
    }
  }
  if (settings_.role == ::ps::Node::SCHEDULER) expire_barriers(now);
}

void Hub::expire_barriers(Instant now) {
  if (settings_.barrier_timeout == Duration{0}) return;
  std::vector<int> late;
  {
    const std::lock_guard lock(state_mutex_);
    for (const auto& [group, since] : barrier_since_) {
      if (now - since > settings_.barrier_timeout) late.push_back(group);
    }
  }
  for (int group : late) {
    break_barrier(group, fmt::format(" within {} s (SUMCAST_PS_BARRIER_TIMEOUT)",
                                     seconds(settings_.barrier_timeout)));
  }
}

std::vector<int> Hub::dead_nodes(Duration silence) {
  std::vector<int> dead;
  const bool is_scheduler = settings_.role == ::ps::Node::SCHEDULER;
  const auto& ids =
      members(is_scheduler ? ::ps::kServerGroup + ::ps::kWorkerGroup : ::ps::kScheduler);
  const Instant now = net::monotonic_now();
  if (!is_scheduler) {
    const std::lock_guard lock(state_mutex_);
    dead.assign(covered_.begin(), covered_.end());
  }
  for (int id : ids) {
    const LinkPtr link = link_to(id);
    const bool silent =
        link != nullptr && now - Instant{link->heard_ns.load(std::memory_order_relaxed)} > silence;
    const std::lock_guard lock(state_mutex_);
    if (silent || lost_.count(id) != 0) dead.push_back(id);
  }
  return dead;
}

}  // namespace sumcast::ps

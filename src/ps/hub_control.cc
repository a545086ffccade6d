// Joining: what nodes say to one another before and beside their programs' messages.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "net/descriptor.h"
#include "ps/customer_core.h"
#include "ps/hub.h"
#include "ps/internal/postoffice.h"
#include "runtime/log.h"

namespace sumcast::ps {
namespace {

using runtime::Subsystem;

}  // namespace

void Hub::say(const LinkPtr& link, const ControlMessage& message) {
  const std::string text = to_text(message);
  FrameHeader header;
  header.kind = FrameKind::kControl;
  header.body_bytes = static_cast<uint32_t>(text.size());
  header.payload_bytes = padded(text.size());
  pass_on(link, link->send(header, {}, {}, text));
}

void Hub::send_hello(const LinkPtr& link) {
  ControlMessage hello;
  hello.kind = "hello";
  hello.node = my_node_.id == ::ps::Node::kEmpty ? -1 : my_node_.id;
  hello.epoch = epoch_;
  hello.dare = link->dare;
  say(link, hello);
}

/// The other says where its answer to our dare stands.
void Hub::on_here(const LinkPtr& link, const ControlMessage& message) {
  uint64_t seen = 0;
  if (link->dare == 0 || message.pid <= 0 || message.pid == ::getpid()) return;
  if (!read_memory(message.pid, message.address, &seen, sizeof seen)) return;
  if (seen != link->answer_to(link->dare, false)) return;
  link->reads = message.pid;
  ControlMessage lend;
  lend.kind = "lend";
  say(link, lend);
}

/// A connection to a known node is ready: it is polled from now on, and used.
void Hub::introduce(const LinkPtr& link, int node) {
  link->node = node;
  send_hello(link);
  {
    const std::lock_guard state(state_mutex_);
    const std::lock_guard lock(links_mutex_);
    links_.emplace(link->token, link);
    by_node_[node] = link;
  }
  (void)poller_->add(link->fd(), link->token);
  link->dirty = true;  // Something may have been queued before the poller knew it.
  write_wanted_ = true;
  wake();
}

bool Hub::on_control(const LinkPtr& link, std::string_view text) {
  const auto message = parse_control(text);
  if (!message) return false;
  const std::string& kind = message->kind;
  if (kind == "hello") {
    if (!on_hello(link, *message)) return false;
    send_unsent_log(link->node.load());
    return true;
  }
  if (kind == "beat") return true;
  if (kind == "here") {
    on_here(link, *message);
    return true;
  }
  if (kind == "lend") {
    link->may_lend = link->dare != 0;
    return true;
  }
  const int node = link->node.load();
  if (kind == "bye") {
    link->left = true;
    return true;
  }
  if (settings_.role == ::ps::Node::SCHEDULER) {
    if (kind == "add") {
      on_add(link, *message);
      return true;
    }
    if (node < 0) return false;
    if (kind == "suspect") {
      const bool may = is_server(message->node) ? settings_.replicas : merging_of_all_ != 0;
      if (!may || !is_of_job(message->node)) return false;
      bool has_left = false;
      {
        const std::lock_guard lock(state_mutex_);
        // All others drop who was declared dead: what that one has lost proves nothing.
        if (lost_.count(node) != 0) return true;
        has_left = left_.count(message->node) != 0;
      }
      if (has_left) {  // Its farewell to the asker stood behind what it never read.
        ControlMessage answer;
        answer.kind = "left";
        answer.node = message->node;
        say(link, answer);
        return true;
      }
      on_lost(message->node, message->why, false);
      return true;
    }
    if (kind != "arrive" || message->group >= 8 || !is_member(message->group, node)) return false;
    on_arrive({node, message->customer, message->token, message->patient != 0}, message->group);
    return true;
  }
  if (node != ::ps::kScheduler) return false;
  if (kind == "nodes") {
    on_nodes(*message);
  } else if (kind == "refused") {
    {
      const std::lock_guard lock(state_mutex_);
      refused_ = message->why;
    }
    crew_.notify();
  } else if (kind == "pass") {
    on_token(message->token, message->why);
  } else if (kind == "lost" && message->node == my_node_.id) {
    fence(message->why);
  } else if (kind == "lost" || kind == "left") {
    if (!is_of_job(message->node)) return false;
    on_lost(message->node, message->why, kind == "left");
  } else {
    return false;
  }
  return true;
}

/// Whether it is the id of a server or worker.
bool Hub::is_of_job(int id) {
  const auto& ids = members(::ps::kServerGroup + ::ps::kWorkerGroup);
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

/// The opener of a connection says who it is. (Its answer carries only the epoch.)
bool Hub::on_hello(const LinkPtr& link, const ControlMessage& message) {
  link->epoch = message.epoch;
  if (message.dare != 0 && link->dare != 0) {
    link->shown = link->answer_to(message.dare, true);
    ControlMessage here;
    here.kind = "here";
    here.pid = ::getpid();
    here.address = reinterpret_cast<uint64_t>(&link->shown);
    say(link, here);
  }
  if (link->node.load() >= 0 || message.node < 0) return true;
  if (!is_of_job(message.node)) return false;
  const std::lock_guard state(state_mutex_);
  {
    const std::shared_lock lock(links_mutex_);
    if (by_node_.count(message.node) != 0) return false;
  }
  link->node = message.node;
  if (const auto it = unsent_.find(message.node); it != unsent_.end()) {
    for (const ::ps::Message& kept : it->second) {
      FrameHeader header = header_of(kept);
      header.sender = my_node_.id;
      pass_on(link, link->send(header, kept.data, kept.meta.data_type, kept.meta.body));
    }
    unsent_.erase(it);
  }
  const std::lock_guard lock(links_mutex_);
  by_node_[message.node] = link;
  return true;
}

KeyWishes Hub::key_wishes() const { return {settings_.partition, asks_for_ranges_}; }

void Hub::on_add(const LinkPtr& link, const ControlMessage& message) {
  if (message.nodes.size() != 1) return;
  if ((message.replicas != 0) != settings_.replicas) {
    refuse(link, message.nodes.front(),
           "SUMCAST_PS_REPLICAS is not the same there; set it for all processes or none");
    return;
  }
  if (first_came_ && message.merging != merging_of_all_) {
    refuse(link, message.nodes.front(),
           "it has declared other requests mergeable than those before it; DeclareMergeable is for "
           "all workers and servers to call, before Start");
    return;
  }
  {
    const std::lock_guard state(state_mutex_);
    const ::ps::Node& node = message.nodes.front();
    const auto added = key_plan_.add(fmt::format("{}:{}", node.hostname, node.port),
                                     {to_partition(message.partition), message.asks != 0});
    if (!added) {
      refuse(link, node, added.error().what);
      return;
    }
    merging_of_all_ = message.merging;
    first_came_ = true;
    register_node(link, node);
  }
  crew_.notify();  // Without the lock: the crew's comes before it.
}

void Hub::refuse(const LinkPtr& link, const ::ps::Node& node, const std::string& why) {
  runtime::log_warn(Subsystem::kInit, "ps: {}:{} is not let in: {}", node.hostname, node.port, why);
  ControlMessage refused;
  refused.kind = "refused";
  refused.why = "the scheduler does not let this process in: " + why;
  say(link, refused);
}

/// Under the state's lock.
void Hub::register_node(const LinkPtr& link, const ::ps::Node& node) {
  if (auto added = roster_->add(node); !added) {
    refuse(link, node, added.error().what);
    return;
  }
  link->host = node.hostname;
  link->port = node.port;
  PS_VLOG(1) << node.hostname << ":" << node.port << " joins: " << roster_->missing_text();
  if (!roster_->is_complete()) return;
  partition_ = key_plan_.decide(settings_.num_servers);
  if (const std::string notice = key_plan_.notice(); !notice.empty()) {
    runtime::log_warn(Subsystem::kInit, "ps: {}", notice);
  }
  ControlMessage all;
  all.kind = "nodes";
  all.partition = to_number(partition_);
  all.nodes = nodes_ = roster_->nodes();
  for (const ::ps::Node& member : nodes_) {
    LinkPtr to;
    {
      const std::lock_guard lock(links_mutex_);
      for (const auto& [token, other] : links_) {
        if (other->host == member.hostname && other->port == member.port) to = other;
      }
      if (to != nullptr) {
        to->node = member.id;
        by_node_[member.id] = to;
      }
    }
    PS_VLOG(1) << "assign rank=" << member.id << " to node " << member.DebugString();
    all.node = member.id;
    if (to != nullptr) say(to, all);
  }
  complete_ = true;
}

void Hub::on_nodes(const ControlMessage& message) {
  {
    const std::lock_guard lock(state_mutex_);
    if (complete_) return;
    nodes_ = message.nodes;
    my_node_.id = message.node;
    partition_ = to_partition(message.partition).value_or(::ps::Partition::kRanges);
    complete_ = true;
  }
  begin_merge(message.nodes);
  // Programs read it; the only variable that ps-lite sets.
  const std::string rank = std::to_string(::ps::Postoffice::IDtoRank(message.node));
  ::setenv("DMLC_RANK", rank.c_str(), 1);
  crew_.notify();
}

}  // namespace sumcast::ps

// Replicas: what a server does is repeated by the next one, which stands in for it when it dies.
//
//   worker ──push──▶ server 0 ──log──▶ server 1        handled in the same order at both;
//   worker ◀─answer─ server 0 ◀─count─ server 1        the answer waits for the count (log_gate.h)
//
// When server 0 dies the scheduler says so to all, and workers send to server 1 what is not
// answered (retainer.h, hub_takeover.cc); what it had by the log already it does not handle again
// (answer_book.h).
#include <cstring>

#include "ps/block_pool.h"
#include "ps/customer_core.h"
#include "ps/hub.h"
#include "ps/internal/postoffice.h"

namespace sumcast::ps {
namespace {

int rank_of(int id) { return ::ps::Postoffice::IDtoRank(id); }
int server_id(int rank) { return ::ps::Postoffice::ServerRankToID(rank); }

/// Handlers may write into the arrays that they are given, and the log is sent later.
/// @param least  arrays up to this size are left as they are.
std::vector<::ps::SArray<char>> copies_of(const std::vector<::ps::SArray<char>>& arrays,
                                          size_t least) {
  std::vector<::ps::SArray<char>> copies = arrays;
  for (::ps::SArray<char>& array : copies) {
    if (array.size() <= least) continue;
    // Memory of the pool: fresh memory of megabytes costs more than the copy.
    const std::shared_ptr<char> block = make_block(array.size());
    std::memcpy(block.get(), array.data(), array.size());
    array = ::ps::SArray<char>(block.get(), array.size());
    array.ptr() = block;
  }
  return copies;
}

}  // namespace

void Hub::start_replica() {
  const std::lock_guard lock(replica_.mutex);
  replica_.routes.reset(settings_.num_servers, settings_.replicas);
  replica_.retainer.clear();
  replica_.book.clear();
  replica_.gate.reset(settings_.replicas && settings_.role == ::ps::Node::SERVER);
  replica_.unsent.clear();
  replica_.early.clear();
  replica_.handled.clear();
  replica_.unsaid.clear();
  replica_.suspects.clear();
  replica_.fenced = false;
  replica_.on.store(settings_.replicas, std::memory_order_release);
}

int Hub::backup_of(int server) const {
  return server_id(replica_.routes.backup_of(rank_of(server)));
}
int Hub::backup_id() const { return backup_of(my_node_.id); }

/// A connection to a server is there: what its log holds for it leaves.
void Hub::send_unsent_log(int node) {
  if (!replica_.on || settings_.role != ::ps::Node::SERVER || node != backup_id()) return;
  const LinkPtr link = link_to(node);
  const std::lock_guard lock(replica_.mutex);
  for (const ::ps::Message& message : replica_.unsent) send_frame(link, FrameKind::kLog, message);
  replica_.unsent.clear();
}

/// `message.meta.sender` travels: who or what it means depends on the kind.
void Hub::send_frame(const LinkPtr& link, FrameKind kind, const ::ps::Message& message) {
  if (link == nullptr) return;  // Its node is going; what it does not get is sent elsewhere.
  FrameHeader header = header_of(message);
  header.kind = kind;
  pass_on(link, link->send(header, message.data, message.meta.data_type, message.meta.body));
}

std::optional<int64_t> Hub::send_replicated(const ::ps::Message& message) {
  const ::ps::Meta& meta = message.meta;
  if (settings_.role == ::ps::Node::WORKER && meta.request && is_server(meta.recver) &&
      rank_of(meta.recver) < settings_.num_servers) {
    return ask(message);
  }
  if (settings_.role != ::ps::Node::SERVER || meta.request || meta.simple_app) return std::nullopt;
  const auto bytes = static_cast<int64_t>(meta.data_size);
  const std::lock_guard lock(replica_.mutex);
  if (replica_.fenced) return 0;
  if (meta.timestamp < 0) {
    if (const auto whose = merge_.on ? replica_.book.whose(meta.timestamp) : std::nullopt) {
      settle_sum(whose->first.server, whose->first.worker, whose->second);
    }
    if (const auto answer = replica_.book.on_response(message)) send_answer(*answer);
    return bytes;
  }
  if (merge_.on) settle_sum(my_node_.id, meta.recver, id_of(meta));
  if (replica_.gate.pass(message)) return std::nullopt;
  return bytes;
}

void Hub::send_answer(const AnswerBook::Answer& answer) {
  ::ps::Message message = answer.message;
  message.meta.sender = answer.origin.server;
  send_frame(link_to(answer.origin.worker), FrameKind::kStandIn, message);
}

/// A worker's request, to the server or to who stands in for it. Under one lock, so that nothing
/// overtakes what is repeated.
int64_t Hub::ask(const ::ps::Message& message) {
  const int server = message.meta.recver;
  int at = -1;
  {
    const std::lock_guard lock(replica_.mutex);
    at = replica_.routes.at(rank_of(server));
    const bool is_own = at == rank_of(server);
    if (is_own || (at >= 0 && !message.meta.simple_app)) {
      replica_.retainer.keep(server, message);
      ::ps::Message out = message;
      out.meta.sender = is_own ? my_node_.id : server;
      send_frame(link_to(server_id(at)), is_own ? FrameKind::kData : FrameKind::kStandIn, out);
      return static_cast<int64_t>(message.meta.data_size);
    }
  }
  if (at >= 0) {
    excuse_request(message.meta);
  } else {
    fail_request(message.meta, why_lost(server).value_or("its server has died"));
  }
  return 0;
}

void Hub::before_handling(const ::ps::Message& message) {
  if (!replica_.on.load(std::memory_order_acquire) || !message.meta.push) return;
  if (message.meta.timestamp < 0 || settings_.role != ::ps::Node::SERVER) return;
  const std::lock_guard lock(replica_.mutex);
  if (!replica_.gate.has_backup()) return;
  replica_.gate.log(message.meta.app_id);
  // Behind what waits for the connection, until that has left (send_unsent_log).
  if (const LinkPtr link = replica_.unsent.empty() ? link_to(backup_id()) : nullptr) {
    FrameHeader header = header_of(message);
    header.kind = FrameKind::kLog;
    const auto arrays = copies_of(message.data, kCopiedMax);  // The link copies those itself.
    pass_on(link, link->send(header, arrays, message.meta.data_type, message.meta.body));
  } else {
    replica_.unsent.push_back(message);
    replica_.unsent.back().data = copies_of(message.data, 0);
  }
}

void Hub::after_handling(const ::ps::Message& message) {
  if (!replica_.on.load(std::memory_order_acquire) || !message.meta.push) return;
  if (message.meta.timestamp >= 0) return;
  const std::lock_guard lock(replica_.mutex);
  ++replica_.handled[message.meta.app_id];
  replica_.unsaid.insert(message.meta.app_id);
}

/// Tells the server before us what we have handled of its log.
void Hub::say_handled() {
  const std::lock_guard lock(replica_.mutex);
  if (replica_.unsaid.empty()) return;
  const int servers = settings_.num_servers;
  const LinkPtr link = link_to(server_id((rank_of(my_node_.id) + servers - 1) % servers));
  for (const int app : replica_.unsaid) {
    const uint64_t count = replica_.handled[app];
    ::ps::Message message;
    message.meta.app_id = app;
    message.meta.sender = my_node_.id;
    message.meta.body.assign(reinterpret_cast<const char*>(&count), sizeof count);
    send_frame(link, FrameKind::kLogged, message);
  }
  replica_.unsaid.clear();
}

/// A response to this worker has come, from the server or from who stands in for it. False if it
/// had come before.
bool Hub::take_answer(int server, const ::ps::Message& message) {
  const std::lock_guard lock(replica_.mutex);
  const auto bytes = message.meta.data_size;
  if (!replica_.retainer.on_answer(server, id_of(message.meta), bytes)) return false;
  const int rank = rank_of(server);
  const auto settled = replica_.retainer.settled(server);
  if (settled.empty() || replica_.routes.at(rank) != rank) return true;
  if (!replica_.routes.has_backup(rank)) return true;
  ::ps::Message out;
  out.meta.sender = server;
  out.meta.body.assign(reinterpret_cast<const char*>(settled.data()),
                       settled.size() * sizeof(RequestId));
  send_frame(link_to(server_id(replica_.routes.backup_of(rank))), FrameKind::kSettled, out);
  return true;
}

/// Frames of this file's kinds. False if the other must not send them.
bool Hub::take_replica_frame(const LinkPtr& link, const FrameHeader& header, ::ps::Message message,
                             std::vector<Arrival>& arrivals) {
  if (!replica_.on) return false;
  const int node = link->node.load();
  const bool on_server = settings_.role == ::ps::Node::SERVER;
  const int named = header.sender;  // Whose request, or whose keys.
  if (header.kind == FrameKind::kLog) {
    const int servers = settings_.num_servers;
    if (!on_server || !is_server(node) || !is_worker(named)) return false;
    if (!message.meta.request || !message.meta.push) return false;
    if ((rank_of(node) + 1) % servers != rank_of(my_node_.id)) return false;
    return take_logged(node, named, std::move(message), arrivals);
  }
  if (header.kind == FrameKind::kLogged) {
    return on_server && node == backup_id() && on_handled(message);
  }
  if (!is_server(named) || rank_of(named) >= settings_.num_servers) return false;
  if (header.kind == FrameKind::kSettled) {
    if (!on_server || !is_worker(node)) return false;
    std::vector<RequestId> ids(message.meta.body.size() / sizeof(RequestId));
    if (!ids.empty()) {
      std::memcpy(ids.data(), message.meta.body.data(), ids.size() * sizeof(RequestId));
    }
    const std::lock_guard lock(replica_.mutex);
    replica_.book.on_settled({named, node}, ids);
    return true;
  }
  if (on_server) {
    if (!is_worker(node) || !message.meta.request) return false;
    message.meta.sender = node;
    message.meta.recver = named;
    if (early_due_) take_early(arrivals);
    return take_asked(std::move(message), arrivals);
  }
  if (settings_.role != ::ps::Node::WORKER || message.meta.request) return false;
  rooms_.release({message.meta.app_id, message.meta.customer_id, message.meta.timestamp, named});
  if (!take_answer(named, message)) return true;
  if (merge_.on && !is_programs(named, message, arrivals)) return true;
  message.meta.sender = named;
  message.meta.recver = my_node_.id;
  if (auto arrival = addressed(std::move(message))) arrivals.push_back(std::move(*arrival));
  return true;
}

bool Hub::take_logged(int server, int worker, ::ps::Message message,
                      std::vector<Arrival>& arrivals) {
  {
    const std::lock_guard lock(replica_.mutex);
    if (!replica_.routes.is_alive(rank_of(server))) return true;
    if (!is_sound_sum(message)) return false;
    const auto number = replica_.book.on_logged({server, worker}, message.meta);
    if (!number) return false;
    (void)record_sum(server, worker, message.meta, true);  // The server has decided.
    message.meta.timestamp = *number;
  }
  message.meta.sender = worker;
  message.meta.recver = my_node_.id;
  if (auto arrival = addressed(std::move(message))) arrivals.push_back(std::move(*arrival));
  return true;
}

/// Our backup has handled some of our log.
bool Hub::on_handled(const ::ps::Message& message) {
  uint64_t count = 0;
  if (message.meta.body.size() != sizeof count) return false;
  std::memcpy(&count, message.meta.body.data(), sizeof count);
  const std::lock_guard lock(replica_.mutex);
  std::vector<::ps::Message> free;
  if (!replica_.gate.on_handled(message.meta.app_id, count, free)) return false;
  send_freed(free);
  return true;
}

void Hub::send_freed(const std::vector<::ps::Message>& free) {
  for (::ps::Message message : free) {
    message.meta.sender = my_node_.id;
    send_frame(link_to(message.meta.recver), FrameKind::kData, message);
  }
}

/// A worker asks us (`message.meta.sender`) for the keys of another server (`recver`).
bool Hub::take_asked(::ps::Message message, std::vector<Arrival>& arrivals) {
  {
    const std::lock_guard lock(replica_.mutex);
    const int server = message.meta.recver, rank = rank_of(server);
    if (replica_.routes.is_alive(rank)) {  // The worker was told before us.
      replica_.early.push_back(std::move(message));
      return true;
    }
    const int at = replica_.routes.at(rank);
    if (at < 0) return true;  // It has left; who asks is about to hear so.
    if (server_id(at) != my_node_.id || !is_sound_sum(message)) return false;
    const auto asked = replica_.book.on_asked({server, message.meta.sender}, message.meta);
    if (asked.answer) send_answer(*asked.answer);
    if (!asked.handle_as) return true;
    const int worker = message.meta.sender;
    const auto verdict = record_sum(server, worker, message.meta);
    if (verdict == HarvestBook::Verdict::kApplied)
      answer_sum(server, {worker, id_of(message.meta)});
    if (verdict != HarvestBook::Verdict::kApply) return true;
    message.meta.timestamp = *asked.handle_as;
    message.meta.recver = my_node_.id;
  }
  if (auto arrival = addressed(std::move(message))) arrivals.push_back(std::move(*arrival));
  return true;
}

}  // namespace sumcast::ps

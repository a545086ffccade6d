// Mergeable pushes: summed on their way, in the workers' processes (docs/adr/0011).
//
//   worker ──part──▶ aggregator ──harvest──▶ server       a sum of many workers' rows, once
//   worker ◀─committed─ aggregator ◀─committed─ server    Wait returns: the server has applied it
//
// The aggregator of a key is a worker's process (merge_cut.h). What it does with parts is in
// merge_shard.h; what a worker and a server remember, so that each part counts exactly once
// whoever dies, in merge_ledger.h and harvest_book.h.
#include <algorithm>
#include <cstring>

#include "net/descriptor.h"
#include "ps/customer_core.h"
#include "ps/hub.h"
#include "ps/internal/postoffice.h"
#include "ps/merge_cut.h"

namespace sumcast::ps {
namespace {

constexpr size_t kSettledStep = 16;  ///< A server is told of so many commitments at once.

template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

template <typename T>
std::vector<T> values_of(const std::string& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

::ps::Message answer_to(int app, int customer, int timestamp) {
  ::ps::Message message;
  message.meta.app_id = app;
  message.meta.customer_id = customer;
  message.meta.timestamp = timestamp;
  message.meta.request = false;
  message.meta.push = true;
  return message;
}

}  // namespace

void Hub::declare_mergeable(int app, int command) {
  const std::lock_guard lock(merge_.mutex);
  merge_.declared.emplace(app, command);
}

bool Hub::is_mergeable(int app, int command) {
  const std::lock_guard lock(merge_.mutex);
  return merge_.declared.count({app, command}) != 0;
}

/// What all processes have to agree on: 0 if nothing is merged, else it stands for what is.
uint64_t Hub::merging() {
  const std::lock_guard lock(merge_.mutex);
  if (!settings_.merge) return 0;
  uint64_t mixed = merge_.declared.size();
  for (const auto& [app, command] : merge_.declared) {
    mixed = mixed * 1000003 + (static_cast<uint64_t>(static_cast<uint32_t>(app)) << 32) +
            static_cast<uint32_t>(command);
  }
  return mixed;
}

void Hub::start_merge() {
  const bool merges = merging() != 0 && settings_.role != ::ps::Node::SCHEDULER;
  const std::lock_guard lock(merge_.mutex);
  merge_.heat = Heat(static_cast<unsigned>(settings_.merge_heat));
  merge_.worth.clear();
  merge_.aggregators.clear();
  merge_.ledger.clear();
  merge_.settled.clear();
  merge_.book.clear();
  merge_.others.clear();
  merge_.replays.clear();
  merge_.next_replay = 0;
  merge_.early.clear();
  merge_.on.store(merges, std::memory_order_release);
}

/// All processes of the job are known. Under no lock.
void Hub::begin_merge(const std::vector<::ps::Node>& nodes) {
  if (!merge_.on) return;
  const std::lock_guard lock(merge_.mutex);
  for (const ::ps::Node& node : nodes) {
    if (node.role == ::ps::Node::WORKER) merge_.aggregators.push_back(node.id);
  }
  std::sort(merge_.aggregators.begin(), merge_.aggregators.end());
  merge_.shard.reset(merge_.aggregators, settings_.merge_wait);
  for (auto& [worker, server, message] : merge_.early) {
    merge_.shard.on_part(worker, server, std::move(message), net::monotonic_now());
  }
  merge_.early.clear();
  send_harvests();
}

/// Of two workers, the one with the higher id opens the connection.
Result<void> Hub::connect_workers(Instant deadline) {
  std::vector<::ps::Node> nodes;
  {
    const std::lock_guard lock(state_mutex_);
    nodes = nodes_;
  }
  for (const ::ps::Node& node : nodes) {
    if (node.role != ::ps::Node::WORKER || node.id >= my_node_.id) continue;
    if (auto reached = reach(node, deadline); !reached) return reached;
  }
  return {};
}

/// A worker's push, if it is to be cut; a server's answer to a harvest. Nothing for all others.
std::optional<int64_t> Hub::send_merged(const ::ps::Message& message) {
  const ::ps::Meta& meta = message.meta;
  if (meta.simple_app) return std::nullopt;
  if (settings_.role == ::ps::Node::SERVER) {
    if (meta.request || meta.timestamp >= 0) return std::nullopt;
    return commit(meta.timestamp);
  }
  if (!meta.request || !meta.push || meta.pull || !meta.body.empty()) return std::nullopt;
  const auto shape = rows_of(message);
  if (!shape) return std::nullopt;
  const int server = meta.recver;
  const LinkPtr straight = link_to(server);
  if (straight == nullptr) return std::nullopt;  // Dead, if another stands in: no sums for it.
  const std::lock_guard lock(merge_.mutex);
  // Lost meanwhile, or its link stands still open: nobody would close the ledger's entry.
  if (why_lost(server)) return std::nullopt;
  if (merge_.declared.count({meta.app_id, meta.head}) == 0) return std::nullopt;
  if (!merge_.worth[server].next()) return std::nullopt;
  std::vector<int> aggregators = merge_.aggregators;
  for (int& id : aggregators) {
    if (id != my_node_.id && link_to(id) == nullptr) id = -1;
  }
  if (aggregators.empty()) return std::nullopt;
  CutPush cut = cut_push(message, *shape, merge_.heat, aggregators);
  if (cut.parts.empty()) return std::nullopt;
  const bool has_straight = !cut.straight.data.empty();
  merge_.ledger.open(meta, has_straight, cut.parts);
  for (auto& [aggregator, part] : cut.parts) {
    if (aggregator == my_node_.id) {
      merge_.shard.on_part(my_node_.id, server, part, net::monotonic_now());
    } else {
      part.meta.sender = server;
      send_frame(link_to(aggregator), FrameKind::kPart, part);
    }
  }
  if (has_straight && replica_.on) {
    ask(cut.straight);
  } else if (has_straight) {
    cut.straight.meta.sender = my_node_.id;
    send_frame(straight, FrameKind::kData, cut.straight);
  }
  const Instant before = merge_.next_due;
  send_harvests();
  if (merge_.next_due < before) wake();
  return static_cast<int64_t>(meta.data_size);
}

/// Sends the sums that may leave. Under the merge's lock.
void Hub::send_harvests() {
  for (Harvest& harvest : merge_.shard.due(net::monotonic_now())) {
    if (replica_.on) {
      ask_for_harvest(harvest);
      continue;
    }
    harvest.message.meta.sender = my_node_.id;
    harvest.message.meta.body = bytes_of(harvest.parts);
    send_frame(link_to(harvest.server), FrameKind::kHarvest, harvest.message);
  }
  merge_.next_due = merge_.shard.next_due();
}

/// The leader's timer. Returns when to look again.
Instant Hub::tend_merge(Instant now) {
  const std::lock_guard lock(merge_.mutex);
  if (merge_.next_due <= now) send_harvests();
  return merge_.next_due;
}

/// A server's handler has answered a harvest.
int64_t Hub::commit(int handled_as) {
  const std::lock_guard lock(merge_.mutex);
  const auto applied = merge_.book.on_response(handled_as);
  if (!applied) return 0;
  ::ps::Message committed;
  committed.meta.timestamp = applied->number;
  committed.meta.sender = my_node_.id;
  send_frame(link_to(applied->aggregator), FrameKind::kCommitted, committed);
  for (const PartName& part : applied->asked) answer_replay(part);
  return 0;
}

void Hub::answer_replay(const PartName& part) {
  ::ps::Message answer = answer_to(part.id.app, part.id.customer, part.id.timestamp);
  answer.meta.sender = my_node_.id;
  send_frame(link_to(part.worker), FrameKind::kData, answer);
}

/// Frames of this file's kinds. False if the other must not send them.
bool Hub::take_merge_frame(const LinkPtr& link, const FrameHeader& header, ::ps::Message message,
                           std::vector<Arrival>& arrivals) {
  if (!merge_.on) return false;
  const bool is_asked = header.kind == FrameKind::kHarvest || header.kind == FrameKind::kReplay;
  if (is_asked && replica_.on) return false;  // They are requests then.
  const int node = link->node.load(), named = header.sender;
  const bool on_server = settings_.role == ::ps::Node::SERVER;
  const int limit = is_server(named) ? settings_.num_servers : settings_.num_workers;
  if (named < 8 || ::ps::Postoffice::IDtoRank(named) >= limit) return false;
  const std::lock_guard lock(merge_.mutex);
  const auto is_rows = [&] {
    return message.meta.request && message.meta.push && rows_of(message) &&
           merge_.declared.count({message.meta.app_id, message.meta.head}) != 0;
  };
  switch (header.kind) {
    case FrameKind::kPart:
      if (on_server || !is_worker(node) || !is_server(named) || !is_rows()) return false;
      take_part(node, named, std::move(message));
      return true;
    case FrameKind::kHarvest:
      if (!on_server || !is_worker(node) || !is_rows()) return false;
      return take_harvest(node, std::move(message), arrivals);
    case FrameKind::kReplay:
      if (!on_server || !is_worker(node) || !is_worker(named) || !is_rows()) return false;
      take_replay(node, named, std::move(message), arrivals);
      return true;
    case FrameKind::kForget:
      if (!on_server || !is_worker(node)) return false;
      if (!is_server(message.meta.head) ||
          ::ps::Postoffice::IDtoRank(message.meta.head) >= settings_.num_servers) {
        return false;
      }
      book_of(message.meta.head).on_settled(named, node, values_of<RequestId>(message.meta.body));
      return true;
    default:
      break;
  }
  if (on_server) return false;
  if (is_server(node)) return take_committed(node, message.meta.timestamp, arrivals);
  if (!is_server(named)) return false;
  merge_.worth[named].on_sum(message.meta.head, message.meta.priority);
  for (const RequestId& id : values_of<RequestId>(message.meta.body)) {
    on_committed(node, named, id, arrivals);
  }
  return true;
}

void Hub::take_part(int worker, int server, ::ps::Message message) {
  if (merge_.aggregators.empty()) {  // We have not been told yet who is in the job.
    merge_.early.emplace_back(worker, server, std::move(message));
    return;
  }
  merge_.shard.on_part(worker, server, std::move(message), net::monotonic_now());
  send_harvests();
}

bool Hub::take_harvest(int aggregator, ::ps::Message message, std::vector<Arrival>& arrivals) {
  const auto parts = values_of<PartName>(message.meta.body);
  if (parts.empty() || message.meta.body.size() % sizeof(PartName) != 0) return false;
  const auto number = merge_.book.on_harvest(aggregator, message.meta.timestamp, parts);
  if (!number) return true;
  message.meta.timestamp = *number;
  message.meta.sender = aggregator;
  message.meta.recver = my_node_.id;
  message.meta.body.clear();
  if (auto arrival = addressed(std::move(message))) arrivals.push_back(std::move(*arrival));
  return true;
}

/// A worker sends again what an aggregator that has died had of it.
void Hub::take_replay(int worker, int aggregator, ::ps::Message message,
                      std::vector<Arrival>& arrivals) {
  const PartName part{worker, id_of(message.meta)};
  const auto verdict = merge_.book.on_replay(aggregator, part);
  if (verdict == HarvestBook::Verdict::kApplied) answer_replay(part);
  if (verdict != HarvestBook::Verdict::kApply) return;
  message.meta.sender = worker;
  message.meta.recver = my_node_.id;
  if (auto arrival = addressed(std::move(message))) arrivals.push_back(std::move(*arrival));
}

/// A server has applied one of our harvests: those whose parts are in it are told.
bool Hub::take_committed(int server, int number, std::vector<Arrival>& arrivals) {
  const auto committed = merge_.shard.on_committed(number);
  if (!committed || committed->server != server) return false;
  std::map<int, std::vector<RequestId>> by_worker;
  for (const PartName& part : committed->parts) by_worker[part.worker].push_back(part.id);
  for (const auto& [worker, ids] : by_worker) {
    if (worker == my_node_.id) {
      merge_.worth[server].on_sum(static_cast<double>(committed->rows_in),
                                  static_cast<double>(committed->rows_out));
      for (const RequestId& id : ids) on_committed(my_node_.id, server, id, arrivals);
      continue;
    }
    ::ps::Message told;
    told.meta.sender = server;
    told.meta.head = static_cast<int>(std::min<size_t>(committed->rows_in, INT32_MAX));
    told.meta.priority = static_cast<int>(std::min<size_t>(committed->rows_out, INT32_MAX));
    told.meta.body = bytes_of(ids);
    send_frame(link_to(worker), FrameKind::kCommitted, told);
  }
  send_harvests();
  return true;
}

/// A part of a push of ours is applied at its server.
void Hub::on_committed(int aggregator, int server, const RequestId& id,
                       std::vector<Arrival>& arrivals) {
  const auto verdict = merge_.ledger.on_committed(aggregator, server, id);
  if (verdict == MergeLedger::Verdict::kUnknown) return;
  auto& settled = merge_.settled[{server, aggregator}];
  settled.push_back(id);
  if (settled.size() >= kSettledStep) {
    ::ps::Message forget;
    forget.meta.sender = aggregator;
    forget.meta.head = server;
    forget.meta.body = bytes_of(settled);
    send_frame(link_to(server), FrameKind::kForget, forget);
    if (replica_.on) send_frame(link_to(backup_of(server)), FrameKind::kForget, forget);
    settled.clear();
  }
  if (verdict == MergeLedger::Verdict::kDone) finish_push(server, id, arrivals);
}

/// All parts of a push of ours are applied at its server.
void Hub::finish_push(int server, const RequestId& id, std::vector<Arrival>& arrivals) {
  if (merge_.ledger.size() == 0) notice_wanted_ = true;
  ::ps::Message answer = answer_to(id.app, id.customer, id.timestamp);
  answer.meta.sender = server;
  answer.meta.recver = my_node_.id;
  if (auto arrival = addressed(std::move(answer))) arrivals.push_back(std::move(*arrival));
}

/// A server's answer to this worker. False if parts of its push are still under way.
bool Hub::is_whole_answer(int server, const ::ps::Message& message) {
  const std::lock_guard lock(merge_.mutex);
  const auto verdict = merge_.ledger.on_answer(server, id_of(message.meta));
  if (verdict == MergeLedger::Verdict::kDone && merge_.ledger.size() == 0) notice_wanted_ = true;
  return verdict != MergeLedger::Verdict::kPending;
}

bool Hub::is_merge_settled() {
  const std::lock_guard lock(merge_.mutex);
  return merge_.ledger.size() == 0;
}

}  // namespace sumcast::ps

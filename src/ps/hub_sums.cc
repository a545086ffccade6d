// Sums of mergeable pushes where servers have replicas.
//
// There a harvest is a request of the aggregator's process like any other: kept until it is
// answered, logged to the backup, asked again of who stands in. What tells it from a program's is
// its customer, kHarvester. So is a part that is sent again because its aggregator has died
// (kReplayer). Both carry in their body whose pushes they contain, and each server knows that of
// its own requests and of those whose log it has: nothing counts twice, whoever dies first.
//
// Locks: at workers merge_ before replica_, at servers replica_ before merge_.
#include <cstring>

#include "net/descriptor.h"
#include "ps/customer_core.h"
#include "ps/hub.h"

namespace sumcast::ps {
namespace {

/// The body of a part that is sent again.
struct ReplayNote {
  int32_t aggregator = 0;
  RequestId id;  ///< The push of which it is a part.
};
static_assert(std::has_unique_object_representations_v<ReplayNote>);

std::optional<ReplayNote> note_of(const std::string& body) {
  ReplayNote note;
  if (body.size() != sizeof note) return std::nullopt;
  std::memcpy(&note, body.data(), sizeof note);
  return note;
}

std::optional<std::vector<PartName>> parts_of(const std::string& body) {
  std::vector<PartName> parts(body.size() / sizeof(PartName));
  if (parts.empty() || body.size() % sizeof(PartName) != 0) return std::nullopt;
  std::memcpy(parts.data(), body.data(), body.size());
  return parts;
}

/// An answer to a part that was sent again, which needed no handler.
::ps::Message answer_for(const PartName& part, int number) {
  ::ps::Message message;
  message.meta.app_id = part.id.app;
  message.meta.customer_id = part.id.customer;
  message.meta.timestamp = number;
  message.meta.recver = part.worker;
  message.meta.push = true;
  return message;
}

}  // namespace

HarvestBook& Hub::book_of(int server) {
  return server == my_node_.id ? merge_.book : merge_.others[server];
}

/// An aggregator's. Under the merge's lock.
void Hub::ask_for_harvest(Harvest& harvest) {
  ::ps::Message& message = harvest.message;
  message.meta.customer_id = kHarvester;
  message.meta.recver = harvest.server;
  message.meta.body.assign(reinterpret_cast<const char*>(harvest.parts.data()),
                           harvest.parts.size() * sizeof(PartName));
  ask(message);
}

/// A worker's: `aggregator`, now dead, had this part of a push. Under the merge's lock.
void Hub::ask_again(int aggregator, ::ps::Message part) {
  const ReplayNote note{aggregator, id_of(part.meta)};
  const int number = merge_.next_replay++;
  merge_.replays[number] = {part.meta.recver, note.id};
  part.meta.customer_id = kReplayer;
  part.meta.timestamp = number;
  part.meta.body.assign(reinterpret_cast<const char*>(&note), sizeof note);
  ask(part);
}

/// A worker's: an answer has come for the first time. False if it is no program's.
bool Hub::is_programs(int server, const ::ps::Message& message, std::vector<Arrival>& arrivals) {
  const int customer = message.meta.customer_id;
  if (customer != kHarvester && customer != kReplayer) {
    return is_whole_answer(server, message);
  }
  const std::lock_guard lock(merge_.mutex);
  if (customer == kHarvester) {
    (void)take_committed(server, message.meta.timestamp, arrivals);
    return false;
  }
  const auto it = merge_.replays.find(message.meta.timestamp);
  if (it == merge_.replays.end()) return false;
  const RequestId id = it->second.second;
  merge_.replays.erase(it);
  if (merge_.ledger.on_answer(server, id) == MergeLedger::Verdict::kDone) {
    finish_push(server, id, arrivals);
  }
  return false;
}

/// Whether a request that stands for sums may be one: what it says of itself fits.
bool Hub::is_sound_sum(const ::ps::Message& message) {
  const int customer = message.meta.customer_id;
  if (customer != kHarvester && customer != kReplayer) return true;
  if (!merge_.on || !message.meta.request || !message.meta.push || message.meta.pull ||
      !rows_of(message) || !is_mergeable(message.meta.app_id, message.meta.head)) {
    return false;
  }
  return customer == kHarvester ? parts_of(message.meta.body).has_value()
                                : note_of(message.meta.body).has_value();
}

/// A server's: records what a sum for `server`'s keys contains, before it is handled. Under the
/// replica's lock. What to do with it; for all other requests, apply it.
HarvestBook::Verdict Hub::record_sum(int server, int worker, const ::ps::Meta& meta, bool decided) {
  if (meta.customer_id == kHarvester) {
    const std::lock_guard lock(merge_.mutex);
    const auto taken =
        book_of(server).on_harvest(worker, meta.timestamp, *parts_of(meta.body), decided);
    return taken ? HarvestBook::Verdict::kApply : HarvestBook::Verdict::kWait;
  }
  if (meta.customer_id != kReplayer) return HarvestBook::Verdict::kApply;
  const ReplayNote note = *note_of(meta.body);
  const std::lock_guard lock(merge_.mutex);
  return book_of(server).on_replay(note.aggregator, {worker, note.id}, {worker, id_of(meta)});
}

/// A server's handler has answered a request of `worker` for `server`'s keys. Under the replica's
/// lock. Those who asked meanwhile whether it contains their parts are answered, too.
void Hub::settle_sum(int server, int worker, const RequestId& id) {
  if (id.customer != kHarvester) return;
  std::vector<PartName> asked;
  {
    const std::lock_guard lock(merge_.mutex);
    HarvestBook& book = book_of(server);
    const auto number = book.find(worker, id.timestamp);
    if (!number) return;
    if (auto applied = book.on_response(*number)) asked = std::move(applied->asked);
  }
  for (const PartName& part : asked) answer_sum(server, part);
}

/// A part that was sent again is applied. Under the replica's lock.
void Hub::answer_sum(int server, const PartName& part) {
  if (server != my_node_.id) {
    const auto number = replica_.book.number_of({server, part.worker}, part.id);
    if (!number) return;
    if (const auto answer = replica_.book.on_response(answer_for(part, *number))) {
      send_answer(*answer);
    }
    return;
  }
  const ::ps::Message answer = answer_for(part, part.id.timestamp);
  if (replica_.gate.pass(answer)) send_freed({answer});
}

/// A request from its worker, to this server's own keys. False if nothing is to be handled.
bool Hub::take_own_sum(int worker, const ::ps::Meta& meta) {
  if (meta.customer_id != kHarvester && meta.customer_id != kReplayer) return true;
  if (!is_worker(worker)) return false;
  const std::lock_guard lock(replica_.mutex);
  const auto verdict = record_sum(my_node_.id, worker, meta);
  if (verdict == HarvestBook::Verdict::kApplied) answer_sum(my_node_.id, {worker, id_of(meta)});
  return verdict == HarvestBook::Verdict::kApply;
}

}  // namespace sumcast::ps

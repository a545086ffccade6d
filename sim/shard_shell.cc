#include "sim/shard_shell.h"

#include <algorithm>
#include <utility>

#include "sim/tokens.h"

namespace sumcast::sim {

using core::Verdict;

ShardShell::ShardShell(const ShardConfig& config, EventQueue& queue,
                       std::span<Link* const> downlinks, ShardRules& rules,
                       ExactlyOnceChecker& checker)
    : config_(config),
      queue_(queue),
      downlinks_(downlinks.begin(), downlinks.end()),
      rules_(rules),
      checker_(checker),
      memory_(core::SlotPool::bytes_needed(config.pool)),
      pool_(config.pool, memory_),
      buffers_(size_t{2} * config.pool.slots),
      ask_memory_(std::max<size_t>(512, config.pool.members)),
      asks_(ask_memory_),
      outbox_(downlinks.size()) {
  SUMCAST_ASSERT(downlinks.size() == config.pool.members);
}

void ShardShell::on_datagram(const Datagram& datagram, Instant now) {
  if (config_.duty_cycle.count() == 0) return receive(datagram, now);
  inbox_.push_back(datagram);
}

void ShardShell::on_batch_end(Instant now) {
  if (config_.duty_cycle.count() == 0) return turn(now);
  wake_at(now + config_.duty_cycle);
}

void ShardShell::on_event(Instant now, uint64_t) {
  if (now != next_wake_) return;  // An earlier wake-up took its place.
  next_wake_ = Instant::never();
  for (const Datagram& datagram : inbox_) receive(datagram, now);
  inbox_.clear();
  turn(now);
}

void ShardShell::wake_at(Instant at) {
  if (at >= next_wake_) return;
  next_wake_ = std::max(at, queue_.now());
  queue_.schedule(next_wake_, *this, 0);
}

void ShardShell::turn(Instant now) {
  pool_.on_timeout(now, asks_);
  flush(now);
  if (pool_.next_deadline() != Instant::never()) {
    wake_at(std::max(pool_.next_deadline(), now + Duration(1)));
  }
}

void ShardShell::receive(const Datagram& datagram, Instant now) {
  if (!rules_.admits(datagram.header)) {
    ++counters_.strangers;
    return;
  }
  switch (datagram.header.kind) {
    case wire::Kind::kContribution:
      return receive_contribution(datagram, now);
    case wire::Kind::kProbe:
      return receive_probes(datagram, now);
    case wire::Kind::kGap:
      return receive_gaps(datagram);
    default:
      SUMCAST_ASSERT(false);
  }
}

void ShardShell::receive_contribution(const Datagram& datagram, Instant now) {
  const wire::Header& header = datagram.header;
  core::Contribution in{header.slot,  datagram.member,      header.phase, header.digest,
                        header.chunk, header.total_or_next, false,        datagram.content};
  const Verdict verdict = rules_.judge(pool_, in, now);
  // The mutants lie about phase and member; the checker is told what the datagram said.
  core::Contribution honest = in;
  honest.phase = header.phase;
  checker_.on_judged(config_.shard, honest, verdict, header.incarnation == 0);
  switch (verdict) {
    case Verdict::kAccepted:
      ++counters_.accepted;
      break;
    case Verdict::kCompleted:
      ++counters_.completed;
      complete(header.slot);
      break;
    case Verdict::kAnswer:
      ++counters_.answered;
      send_again(header.slot, datagram.member);
      break;
    case Verdict::kDuplicate:
      ++counters_.duplicate;
      break;
    case Verdict::kStale:
      ++counters_.stale;
      break;
    case Verdict::kMismatch:
    case Verdict::kForeign:
      return;  // A violation here, and noted by the checker.
  }
  uint16_t marked = 0;
  for (uint16_t m = 0; m < config_.pool.members; ++m) {
    marked = static_cast<uint16_t>(marked + (pool_.has_counted(header.slot, m) ? 1 : 0));
  }
  checker_.on_slot_seen(config_.shard, header.slot, pool_.phase(header.slot),
                        pool_.counted(header.slot), marked);
}

void ShardShell::complete(uint16_t slot) {
  const core::StoredResult& result = pool_.stored(slot);
  const uint64_t sum = fold(pool_.payloads(slot));
  checker_.on_result_written(config_.shard, slot, result, sum);
  buffer(slot, result.phase) = sum;
  for (uint16_t member = 0; member < downlinks_.size(); ++member) post_result(slot, member, sum);
}

void ShardShell::send_again(uint16_t slot, uint16_t member) {
  if (!rules_.sends_again()) return;
  post_result(slot, member, rules_.again(buffer(slot, pool_.stored(slot).phase)));
}

void ShardShell::post_result(uint16_t slot, uint16_t member, uint64_t sum) {
  const core::StoredResult& result = pool_.stored(slot);
  checker_.on_result_sent(config_.shard, slot, result, sum);
  Datagram datagram;
  datagram.header.kind = wire::Kind::kResult;
  datagram.header.slot = slot;
  datagram.header.phase = result.phase;
  datagram.header.digest = result.digest;
  datagram.header.chunk = result.chunk;
  datagram.header.total_or_next = result.number;
  datagram.member = member;
  datagram.shard = config_.shard;
  datagram.content = sum;
  datagram.bytes = bytes_on_link(config_.payload_bytes);
  outbox_[member].push_back(std::move(datagram));
}

void ShardShell::receive_probes(const Datagram& datagram, Instant now) {
  for (const wire::Note& note : datagram.notes) {
    ++counters_.probes_heard;
    switch (pool_.on_probe(datagram.member, note.slot, note.phase_or_number, now, asks_)) {
      case core::ProbeVerdict::kAnswer:
        send_again(note.slot, datagram.member);
        break;
      case core::ProbeVerdict::kAskProber:
        if (!asks_.full()) asks_.push(core::Ask{datagram.member, note.slot});
        break;
      case core::ProbeVerdict::kWaiting:
      case core::ProbeVerdict::kStale:
      case core::ProbeVerdict::kForeign:
        break;
    }
  }
}

void ShardShell::receive_gaps(const Datagram& datagram) {
  for (const wire::Note& note : datagram.notes) {
    ++counters_.gaps_heard;
    const uint16_t slot = pool_.find_result(note.digest, note.phase_or_number);
    if (slot != core::OrderList::kNone) send_again(slot, datagram.member);
  }
}

void ShardShell::flush(Instant now) {
  counters_.asks += asks_.size();
  for (uint16_t member = 0; member < downlinks_.size(); ++member) {
    Datagram asks;
    asks.header.kind = wire::Kind::kAsk;
    asks.member = member;
    asks.shard = config_.shard;
    for (const core::Ask& ask : asks_) {
      if (ask.member != member) continue;
      asks.notes.push_back(wire::Note{ask.slot, pool_.phase(ask.slot), 0});
    }
    std::vector<Datagram>& outbox = outbox_[member];
    // Asks go first: what they bring back is what a slot has waited for.
    if (!asks.notes.empty()) {
      asks.bytes = bytes_on_link(asks.notes.size() * wire::kNoteBytes);
      downlinks_[member]->send({&asks, 1}, now);
    }
    for (size_t at = 0; at < outbox.size(); at += config_.batch) {
      const size_t count = std::min<size_t>(config_.batch, outbox.size() - at);
      downlinks_[member]->send(std::span(outbox).subspan(at, count), now);
    }
    outbox.clear();
  }
  asks_.clear();
}

}  // namespace sumcast::sim

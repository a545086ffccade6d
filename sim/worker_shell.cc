#include "sim/worker_shell.h"

#include <algorithm>
#include <utility>

#include "sim/tokens.h"

namespace sumcast::sim {

WorkerShell::WorkerShell(const WorkerConfig& config, uint16_t shards,
                         std::span<const OperationPlan> plan, std::vector<Instant> submit_at,
                         EventQueue& queue, Link& uplink, ExactlyOnceChecker& checker)
    : config_(config),
      plan_(plan),
      submit_at_(std::move(submit_at)),
      queue_(queue),
      uplink_(uplink),
      checker_(checker),
      outgoing_(config.batch),
      probes_(config.window.slots),
      gaps_(config.window.slots) {
  SUMCAST_ASSERT(submit_at_.size() == plan_.size());
  for (uint16_t i = 0; i < shards; ++i) {
    paths_.push_back(std::make_unique<Path>(config.window, config.rtt));
  }
  if (!plan_.empty()) wake_at(submit_at_[0]);
}

bool WorkerShell::idle() const {
  return std::ranges::all_of(paths_, [](const auto& path) { return path->window.idle(); });
}

void WorkerShell::on_datagrams(std::span<const Datagram> datagrams, Instant now) {
  if (config_.duty_cycle.count() == 0) {
    for (const Datagram& datagram : datagrams) receive(datagram, now);
    turn(now);
    return;
  }
  inbox_.insert(inbox_.end(), datagrams.begin(), datagrams.end());
  wake_at(now + config_.duty_cycle);
}

void WorkerShell::on_event(Instant now, uint64_t) {
  if (now != next_wake_) return;  // An earlier wake-up took its place.
  next_wake_ = Instant::never();
  for (const Datagram& datagram : inbox_) receive(datagram, now);
  inbox_.clear();
  turn(now);
}

void WorkerShell::wake_at(Instant at) {
  if (at >= next_wake_) return;
  next_wake_ = std::max(at, queue_.now());
  queue_.schedule(next_wake_, *this, 0);
}

void WorkerShell::turn(Instant now) {
  submit_due(now);
  for (uint16_t shard = 0; shard < paths_.size(); ++shard) {
    run_timers(shard, now);
    fill(shard, now);
  }
  if (submitted_ < plan_.size() && submit_at_[submitted_] > now) wake_at(submit_at_[submitted_]);
  for (const auto& path : paths_) {
    const Instant deadline = next_deadline(*path);
    if (deadline != Instant::never()) wake_at(std::max(deadline, now + Duration(1)));
  }
}

Duration WorkerShell::timeout(const Path& path) const {
  if (!path.rtt.has_sample()) return path.rtt.rto();
  return std::max(path.rtt.rto(), std::chrono::duration_cast<Duration>(
                                      path.rtt.smoothed() * config_.recovery.rto_factor));
}

/// How long the results of a stream that ends may stay away, or "for ever" while it does not.
Duration WorkerShell::silence(const Path& path) const {
  const bool ends = path.window.ready() == 0 && path.window.in_flight() < config_.window.slots;
  if (!ends || !path.rtt.has_sample() || config_.recovery.silence_factor <= 0) {
    return Duration::max();
  }
  return std::max(
      config_.recovery.silence_floor,
      std::chrono::duration_cast<Duration>(path.rtt.smoothed() * config_.recovery.silence_factor));
}

Instant WorkerShell::next_deadline(const Path& path) const {
  const Duration rto = timeout(path), quiet = silence(path);
  const Instant late = path.window.next_deadline(rto);
  if (quiet >= rto || late == Instant::never()) return late;
  return std::min(late, std::max(path.window.next_deadline(quiet), path.last_result_at + quiet));
}

void WorkerShell::submit_due(Instant now) {
  for (; submitted_ < plan_.size() && submit_at_[submitted_] <= now; ++submitted_) {
    const OperationPlan& operation = plan_[submitted_];
    const bool full = std::ranges::any_of(paths_, [](const auto& p) { return p->window.full(); });
    if (full) return;  // The next result that retires an operation brings us back here.
    for (size_t shard = 0; shard < paths_.size(); ++shard) {
      if (operation.totals[shard] == 0) continue;
      Path& path = *paths_[shard];
      path.window.submit(operation.digest, operation.totals[shard], operation.first_slot);
      path.operation_by_ticket.push_back(static_cast<uint32_t>(submitted_));
    }
  }
}

void WorkerShell::receive(const Datagram& datagram, Instant now) {
  if (datagram.header.incarnation != 0) return;  // Of another life of the job (I5).
  switch (datagram.header.kind) {
    case wire::Kind::kResult:
      return receive_result(datagram, now);
    case wire::Kind::kAsk:
      return receive_asks(datagram);
    default:
      SUMCAST_ASSERT(false);
  }
}

void WorkerShell::receive_result(const Datagram& datagram, Instant now) {
  const wire::Header& header = datagram.header;
  Path& path = *paths_[datagram.shard];
  core::Delivery delivery;
  const core::ResultVerdict verdict = path.window.on_result(
      header.slot, header.phase, header.digest, header.total_or_next, now, delivery);
  if (verdict != core::ResultVerdict::kAccepted) {
    ++counters_.results_duplicate;
    return;
  }
  if (!delivery.repeated) path.rtt.on_sample(delivery.since_sent);
  checker_.on_delivered(config_.member, datagram.shard, header.slot, header.phase,
                        path.operation_by_ticket[delivery.ticket], delivery.chunk,
                        datagram.content);
  path.last_result_at = now;
  finished_at_ = now;
}

void WorkerShell::receive_asks(const Datagram& datagram) {
  Path& path = *paths_[datagram.shard];
  for (const wire::Note& note : datagram.notes) {
    ++counters_.asks_heard;
    if (path.window.on_ask(note.slot, note.phase_or_number)) continue;
    ++counters_.asks_ignored;
    const uint32_t phase = path.window.phase(note.slot);
    if (config_.recovery.ask_ahead_probes && note.phase_or_number == phase + 1) {
      path.probes.push_back(wire::Note{note.slot, phase, 0});
    }
  }
}

void WorkerShell::run_timers(uint16_t shard, Instant now) {
  Path& path = *paths_[shard];
  BoundedList<core::Want> probes(probes_), gaps(gaps_);
  Duration patience = timeout(path);
  const Duration quiet = silence(path);
  if (quiet < patience && now - path.last_result_at >= quiet) patience = quiet;
  path.window.on_timeout(now, patience, probes, gaps);
  std::vector<wire::Note> probe_notes = std::exchange(path.probes, {});
  for (const core::Want& want : probes) {
    probe_notes.push_back(wire::Note{want.slot, want.phase_or_number, want.digest});
  }
  std::vector<wire::Note> gap_notes;
  for (const core::Want& want : gaps) {
    gap_notes.push_back(wire::Note{want.slot, want.phase_or_number, want.digest});
  }
  counters_.probes += probe_notes.size();
  counters_.gaps += gap_notes.size();
  send_notes(shard, wire::Kind::kProbe, probe_notes, now);
  send_notes(shard, wire::Kind::kGap, gap_notes, now);
}

void WorkerShell::send_notes(uint16_t shard, wire::Kind kind, std::span<const wire::Note> notes,
                             Instant now) {
  while (!notes.empty()) {
    const auto part = notes.first(std::min(notes.size(), kNotesPerDatagram));
    Datagram datagram;
    datagram.header.kind = kind;
    datagram.member = config_.member;
    datagram.shard = shard;
    datagram.notes.assign(part.begin(), part.end());
    datagram.bytes = bytes_on_link(part.size() * wire::kNoteBytes);
    uplink_.send({&datagram, 1}, now);
    notes = notes.subspan(part.size());
  }
}

void WorkerShell::fill(uint16_t shard, Instant now) {
  Path& path = *paths_[shard];
  while (path.window.wants_to_send()) {
    const uint32_t in_flight = path.window.in_flight();
    const uint32_t fresh = config_.in_flight_max - std::min(in_flight, config_.in_flight_max);
    BoundedList<core::Outgoing> out(outgoing_);
    path.window.fill(now, fresh, out);
    if (out.empty()) return;
    batch_.clear();
    for (const core::Outgoing& next : out) {
      const uint32_t index = path.operation_by_ticket[next.ticket];
      Datagram datagram;
      datagram.header.kind = wire::Kind::kContribution;
      datagram.header.slot = next.slot;
      datagram.header.phase = next.phase;
      datagram.header.digest = plan_[index].digest;
      datagram.header.chunk = next.chunk;
      datagram.header.total_or_next = plan_[index].totals[shard];
      datagram.member = config_.member;
      datagram.shard = shard;
      datagram.content = token(index, shard, next.chunk, config_.member);
      datagram.bytes = bytes_on_link(config_.payload_bytes);
      counters_.repeats += next.repeat ? 1 : 0;
      batch_.push_back(std::move(datagram));
    }
    uplink_.send(batch_, now);
  }
}

}  // namespace sumcast::sim

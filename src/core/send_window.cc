#include "core/send_window.h"

#include <algorithm>
#include <bit>

#include "base/assert.h"
#include "base/ids.h"

namespace sumcast::core {
namespace {

constexpr uint32_t kBackoffMax = 6;  // 64 times the RTO; deadlines belong to the caller.
/// Doubling ends here: a probe is one small datagram, and a path that is back must be noticed soon.
constexpr Duration kPatienceMax = std::chrono::milliseconds(250);

constexpr size_t ring_size(uint16_t operations) { return std::bit_ceil(size_t{operations}); }

/// Takes one value out of a queue, the order of the others is kept. O(n), for what is rare.
void take_out(Ring<uint16_t>& ring, uint16_t value) {
  for (size_t left = ring.size(); left > 0; --left) {
    const uint16_t front = ring.pop();
    if (front != value) ring.push(front);
  }
}

}  // namespace

size_t SendWindow::bytes_needed(const SendWindowConfig& config) {
  return Arena::bytes_for<Slot>(config.slots) +
         Arena::bytes_for<Operation>(ring_size(config.operations)) +
         Arena::bytes_for<Gap>(config.slots) + 2 * Arena::bytes_for<uint16_t>(config.slots) +
         OrderList::bytes_needed(config.slots);
}

SendWindow::SendWindow(const SendWindowConfig& config, std::span<std::byte> memory)
    : config_(config), patience_(config.reorder_window, config.gap_interval), flight_([&] {
        SUMCAST_ASSERT(config.slots >= 1 && config.slots < OrderList::kNone);
        SUMCAST_ASSERT(config.operations >= 1);
        Arena arena(memory);
        slots_ = arena.take<Slot>(config.slots);
        for (Slot& slot : slots_) slot.phase = config.first_phase;
        operations_ = arena.take<Operation>(ring_size(config.operations));
        gap_memory_ = arena.take<Gap>(config.slots);
        ready_ = Ring<uint16_t>(arena.take<uint16_t>(config.slots));
        urgent_ = Ring<uint16_t>(arena.take<uint16_t>(config.slots));
        return OrderList(config.slots, arena);
      }()) {}

Ticket SendWindow::submit(uint32_t digest, uint32_t total, uint32_t first_slot) {
  SUMCAST_ASSERT(!full());
  SUMCAST_ASSERT(total >= 1 && digest != 0);
  const Ticket ticket = next_ticket_++;
  const uint32_t fixed = std::min<uint32_t>(total, config_.slots);
  operation(ticket) = Operation{digest, total, first_slot % config_.slots, 0, fixed};
  ++operations_live_;
  for (uint32_t i = 0; i < fixed; ++i) {
    // Reduced first: the sum must not wrap at 2^32, which is no multiple of most slot counts.
    const auto index = static_cast<uint16_t>((first_slot % config_.slots + i) % config_.slots);
    // An idle slot is done with all earlier operations; a busy one comes here when it is.
    if (slots_[index].state == State::kIdle) make_ready(index, ticket, i);
  }
  return ticket;
}

void SendWindow::make_ready(uint16_t index, Ticket ticket, uint32_t chunk) {
  Slot& slot = slots_[index];
  slot.ticket = ticket;
  slot.chunk = chunk;
  slot.state = State::kReady;
  ready_.push(index);
}

/// The slot is done with operation `after`: the next one with a fixed chunk here takes it.
void SendWindow::claim_next_operation(uint16_t index, Ticket after) {
  for (Ticket ticket = after + 1; ticket != next_ticket_; ++ticket) {
    const Operation& op = operation(ticket);
    const uint32_t chunk = (index + config_.slots - op.first_slot) % config_.slots;
    if (chunk < op.total) {
      make_ready(index, ticket, chunk);
      return;
    }
  }
  slots_[index].state = State::kIdle;
}

void SendWindow::fill(Instant now, uint32_t fresh_limit, BoundedList<Outgoing>& out) {
  const auto send = [&](uint16_t index, bool repeat) {
    Slot& slot = slots_[index];
    slot.state = State::kInFlight;
    slot.repeated = repeat;
    slot.sent_at = slot.acted_at = now;
    flight_.append(index);
    out.push(Outgoing{index, slot.phase, slot.ticket, slot.chunk, repeat});
  };
  while (!out.full() && !urgent_.empty()) {
    const uint16_t index = urgent_.pop();
    slots_[index].urgent = false;
    if (slots_[index].state == State::kReady) {
      // Asked for before its turn: it goes whatever the limit says. Members whose limits are
      // used up by different slots would wait for each other for ever.
      take_out(ready_, index);
      ++in_flight_;
      send(index, false);
    } else {
      flight_.remove(index);
      ++repeats_;
      send(index, true);
    }
  }
  while (!out.full() && fresh_limit > 0 && !ready_.empty()) {
    ++in_flight_;
    --fresh_limit;
    send(ready_.pop(), false);
  }
}

ResultVerdict SendWindow::on_result(uint16_t index, uint32_t phase, uint32_t digest,
                                    uint32_t number, Instant now, Delivery& delivery) {
  if (index >= config_.slots) return ResultVerdict::kForeign;
  Slot& slot = slots_[index];
  if (serial_before(phase, slot.phase)) return ResultVerdict::kDuplicate;
  if (phase != slot.phase || slot.state != State::kInFlight) return ResultVerdict::kStale;
  Operation& op = operation(slot.ticket);
  if (digest != op.digest) return ResultVerdict::kStale;
  const uint32_t fixed = std::min<uint32_t>(op.total, config_.slots);
  if (number < fixed || number - fixed >= op.total) return ResultVerdict::kStale;

  delivery = Delivery{slot.ticket,        slot.chunk,    ++op.completed == op.total,
                      now - slot.sent_at, slot.repeated, slot.acted_at != slot.sent_at};
  if (!slot.repeated) patience_.on_round_trip(delivery.since_sent);
  backoff_ = 0;
  flight_.remove(index);
  --in_flight_;
  if (slot.urgent) {  // What was asked for has been answered by itself.
    take_out(urgent_, index);
    slot.urgent = false;
  }
  ++slot.phase;
  if (note_number(op, number, now)) delivery.probed = true;
  if (number < op.total) {
    make_ready(index, slot.ticket, number);  // P7
  } else {
    claim_next_operation(index, slot.ticket);
  }
  if (delivery.operation_complete) retire_complete_operations();
  return ResultVerdict::kAccepted;
}

/// Results of an operation bear the numbers fixed, fixed + 1, ...: one that is skipped was lost,
/// or is late. What does not fit into the list is left to the RTO.
/// @return true if this one was skipped and asked for.
bool SendWindow::note_number(Operation& op, uint32_t number, Instant now) {
  if (number < op.number_high) {
    for (uint32_t i = 0; i < gaps_; ++i) {
      if (gap_memory_[i].number != number || gap_memory_[i].digest != op.digest) continue;
      const bool told = gap_memory_[i].told;
      gap_memory_[i] = gap_memory_[--gaps_];
      return told;
    }
    return false;
  }
  for (uint32_t n = op.number_high; n < number && gaps_ < gap_memory_.size(); ++n) {
    gap_memory_[gaps_++] = Gap{op.digest, n, now + patience_.reorder()};
  }
  op.number_high = number + 1;
  return false;
}

void SendWindow::retire_complete_operations() {
  while (operations_live_ > 0) {
    const Operation& op = operation(oldest_);
    if (op.completed != op.total) return;
    ++oldest_;
    --operations_live_;
  }
}

bool SendWindow::on_ask(uint16_t index, uint32_t phase) {
  if (index >= config_.slots) return false;
  Slot& slot = slots_[index];
  if (slot.state == State::kIdle || slot.phase != phase) return false;
  if (!slot.urgent) {
    slot.urgent = true;
    urgent_.push(index);
  }
  return true;
}

Duration SendWindow::backed_off(Duration rto) const {
  return std::max(rto, std::min(rto * (int64_t{1} << backoff_), kPatienceMax));
}

uint32_t SendWindow::on_timeout(Instant now, Duration rto, BoundedList<Want>& probes,
                                BoundedList<Want>& gaps) {
  const Duration patience = backed_off(rto);
  bool probed = false;
  while (flight_.head() != OrderList::kNone && !probes.full()) {
    const uint16_t index = flight_.head();
    Slot& slot = slots_[index];
    if (slot.acted_at + patience > now) break;
    probes.push(Want{index, slot.phase, operation(slot.ticket).digest});  // P6
    slot.acted_at = now;
    flight_.remove(index);
    flight_.append(index);
    probed = true;
  }
  if (probed && backoff_ < kBackoffMax) ++backoff_;
  uint32_t lost = 0;
  for (uint32_t i = 0; i < gaps_ && !gaps.full(); ++i) {
    Gap& gap = gap_memory_[i];
    if (gap.report_at > now) continue;
    gaps.push(Want{0, gap.number, gap.digest});
    gap.report_at = now + patience_.repeat();
    if (!gap.told) ++lost;
    gap.told = true;
  }
  return lost;
}

Instant SendWindow::next_deadline(Duration rto) const {
  Instant due = Instant::never();
  if (flight_.head() != OrderList::kNone) {
    due = slots_[flight_.head()].acted_at + backed_off(rto);
  }
  for (uint32_t i = 0; i < gaps_; ++i) due = std::min(due, gap_memory_[i].report_at);
  return due;
}

void SendWindow::abandon() {
  for (uint16_t i = 0; i < config_.slots; ++i) {
    if (slots_[i].state == State::kInFlight) flight_.remove(i);
    slots_[i].state = State::kIdle;
    slots_[i].urgent = false;
  }
  while (!ready_.empty()) ready_.pop();
  while (!urgent_.empty()) urgent_.pop();
  gaps_ = 0;
  in_flight_ = 0;
  oldest_ = next_ticket_;
  operations_live_ = 0;
}

}  // namespace sumcast::core

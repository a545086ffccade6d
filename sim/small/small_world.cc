#include "sim/small/small_world.h"

#include <algorithm>

#include "sim/tokens.h"

namespace sumcast::sim {

using core::Verdict;
using Kind = SmallWorld::Flight::Kind;

namespace {

constexpr Duration kHour = std::chrono::hours(1);

core::SlotPoolConfig pool_config(size_t operations) {
  return {.members = SmallWorld::kMembers,
          .slots = SmallWorld::kSlots,
          .operations = static_cast<uint16_t>(operations),
          .reorder_window = Duration{0},
          .ask_interval = Duration{0}};
}
core::SendWindowConfig window_config(size_t operations) {
  return {.slots = SmallWorld::kSlots,
          .operations = static_cast<uint16_t>(operations),
          .reorder_window = Duration{0},
          .gap_interval = Duration{0}};
}
uint32_t digest_of(size_t operation) { return static_cast<uint32_t>(operation + 1); }

}  // namespace

SmallWorld::State::State(const core::SlotPoolConfig& p, const core::SendWindowConfig& w)
    : pool(p, memory[0]), windows{core::SendWindow(w, memory[1]), core::SendWindow(w, memory[2])} {}

SmallWorld::SmallWorld(const SmallWorldConfig& config)
    : config_(config),
      state_(pool_config(config.operations.size()), window_config(config.operations.size())) {
  SUMCAST_ASSERT(!config.operations.empty() && config.operations.size() <= kOperationsMax);
  for (const SmallOperation& o : config.operations) SUMCAST_ASSERT(o.chunks <= kChunksMax);
  state_.drops = config.drops;
  state_.doubles = config.doubles;
  state_.timers = config.timers;
}

void SmallWorld::fail(const std::string& what) {
  if (violation_.empty()) violation_ = what;
}

void SmallWorld::put(const Flight& flight) {
  SUMCAST_ASSERT(state_.flights_count < kFlightsMax);
  Flight* const end = state_.flights.data() + state_.flights_count;
  Flight* const at = std::upper_bound(state_.flights.data(), end, flight);
  std::move_backward(at, end, end + 1);
  *at = flight;
  ++state_.flights_count;
}

SmallWorld::Flight SmallWorld::pick(size_t index) {
  const Flight flight = state_.flights[index];
  Flight* const at = state_.flights.data() + index;
  std::move(at + 1, state_.flights.data() + state_.flights_count, at);
  state_.flights[--state_.flights_count] = Flight{};
  return flight;
}

std::vector<SmallWorld::Step> SmallWorld::steps() const {
  std::vector<Step> steps;
  for (uint16_t i = 0; i < state_.flights_count; ++i) {
    if (i > 0 && state_.flights[i] == state_.flights[i - 1]) continue;
    steps.push_back({Step::Kind::kDeliver, i});
    if (state_.drops > 0) steps.push_back({Step::Kind::kDrop, i});
    if (state_.doubles > 0) steps.push_back({Step::Kind::kDouble, i});
  }
  for (uint16_t m = 0; m < kMembers; ++m) {
    if (state_.submitted[m] < config_.operations.size()) {
      steps.push_back({Step::Kind::kSubmit, m});
    }
    if (state_.timers == 0) continue;
    steps.push_back({Step::Kind::kProbe, m});
    steps.push_back({Step::Kind::kGap, m});
  }
  if (state_.timers > 0) steps.push_back({Step::Kind::kAsk, 0});
  return steps;
}

void SmallWorld::take(const Step& step) {
  switch (step.kind) {
    case Step::Kind::kDeliver:
      return arrive(pick(step.which));
    case Step::Kind::kDrop:
      --state_.drops;
      pick(step.which);
      return;
    case Step::Kind::kDouble:
      --state_.doubles;
      return put(state_.flights[step.which]);
    case Step::Kind::kSubmit:
      return submit(step.which);
    case Step::Kind::kProbe:
      --state_.timers;
      return window_timer(step.which, true, false);
    case Step::Kind::kGap:
      --state_.timers;
      return window_timer(step.which, false, true);
    case Step::Kind::kAsk:
      --state_.timers;
      return ask_timer();
  }
}

void SmallWorld::submit(uint16_t member) {
  const uint8_t index = state_.submitted[member]++;
  const SmallOperation& operation = config_.operations[index];
  state_.windows[member].submit(digest_of(index), operation.chunks, operation.first_slot);
  send_ready(member);
}

void SmallWorld::send_ready(uint16_t member) {
  core::SendWindow& window = state_.windows[member];
  std::array<core::Outgoing, 2 * kSlots> room;
  BoundedList<core::Outgoing> out(room);
  window.fill(state_.now,
              config_.in_flight_max - std::min(config_.in_flight_max, window.in_flight()), out);
  for (const core::Outgoing& next : out) {
    Flight flight{.kind = Kind::kContribution};
    flight.member = static_cast<uint8_t>(member);
    flight.slot = static_cast<uint8_t>(next.slot);
    flight.phase = next.phase;
    flight.operation = static_cast<uint8_t>(next.ticket);
    flight.chunk = static_cast<uint8_t>(next.chunk);
    flight.content = token(next.ticket, 0, next.chunk, member);
    put(flight);
  }
}

void SmallWorld::arrive(const Flight& flight) {
  switch (flight.kind) {
    case Kind::kContribution:
      return contribution_arrives(flight);
    case Kind::kProbe:
      return probe_arrives(flight);
    case Kind::kGap: {
      const uint16_t slot = state_.pool.find_result(digest_of(flight.operation), flight.number);
      if (slot != core::OrderList::kNone) send_result(flight.member, slot);
      return;
    }
    case Kind::kResult:
      return result_arrives(flight);
    case Kind::kAsk:
      state_.windows[flight.member].on_ask(flight.slot, flight.phase);
      return send_ready(flight.member);
  }
}

void SmallWorld::contribution_arrives(const Flight& flight) {
  core::Contribution in;
  in.slot = flight.slot;
  in.member = flight.member;
  in.phase = flight.phase;
  in.digest = digest_of(flight.operation);
  in.chunk = flight.chunk;
  in.total = config_.operations[flight.operation].chunks;
  in.payload = flight.content;
  if (config_.version_bit_only && ((in.phase ^ state_.pool.phase(in.slot)) & 1u) == 0) {
    in.phase = state_.pool.phase(in.slot);
  }
  switch (state_.pool.on_contribution(in, state_.now)) {
    case Verdict::kCompleted:
      check_sum(in.slot);
      for (uint16_t m = 0; m < kMembers; ++m) send_result(m, in.slot);
      return;
    case Verdict::kAnswer:
      return send_result(flight.member, in.slot);
    case Verdict::kMismatch:
    case Verdict::kForeign:
      return fail("an honest contribution was refused");
    case Verdict::kAccepted:
    case Verdict::kDuplicate:
    case Verdict::kStale:
      return;
  }
}

/// A slot has completed: its payloads against the scalar reference, its chunk against all others.
void SmallWorld::check_sum(uint16_t slot) {
  const core::StoredResult& result = state_.pool.stored(slot);
  const uint32_t operation = result.digest - 1;
  const uint64_t sum = fold(state_.pool.payloads(slot));
  if (sum != expected_sum(operation, 0, result.chunk, kMembers)) {
    fail("a sum does not hold each member's contribution to this chunk once");
  }
  for (uint16_t m = 0; m < kMembers; ++m) {
    if (state_.held[m][slot] != result.phase) fail("a result was given up that a member needs");
  }
  if (++state_.completions[operation] > config_.operations[operation].chunks) {
    fail("an operation completed more chunks than it has");
  }
  state_.sums[slot] = sum;
}

void SmallWorld::send_result(uint16_t member, uint16_t slot) {
  const core::StoredResult& result = state_.pool.stored(slot);
  Flight flight{.kind = Kind::kResult};
  flight.member = static_cast<uint8_t>(member);
  flight.slot = static_cast<uint8_t>(slot);
  flight.phase = result.phase;
  flight.operation = static_cast<uint8_t>(result.digest - 1);
  flight.chunk = static_cast<uint8_t>(result.chunk);
  flight.number = result.number;
  flight.content = state_.sums[slot];
  put(flight);
}

void SmallWorld::probe_arrives(const Flight& flight) {
  std::array<core::Ask, kMembers * kSlots> room;
  BoundedList<core::Ask> asks(room);
  switch (state_.pool.on_probe(flight.member, flight.slot, flight.phase, state_.now, asks)) {
    case core::ProbeVerdict::kAnswer:
      return send_result(flight.member, flight.slot);
    case core::ProbeVerdict::kAskProber:
      asks.push({flight.member, flight.slot});
      break;
    case core::ProbeVerdict::kWaiting:
    case core::ProbeVerdict::kStale:
      break;
    case core::ProbeVerdict::kForeign:
      return fail("an honest probe was refused");
  }
  send_asks(asks);
}

void SmallWorld::send_asks(const BoundedList<core::Ask>& asks) {
  for (const core::Ask& ask : asks) {
    Flight flight{.kind = Kind::kAsk};
    flight.member = static_cast<uint8_t>(ask.member);
    flight.slot = static_cast<uint8_t>(ask.slot);
    flight.phase = state_.pool.phase(ask.slot);
    put(flight);
  }
}

void SmallWorld::result_arrives(const Flight& flight) {
  const uint16_t m = flight.member;
  core::Delivery delivery;
  const core::ResultVerdict verdict = state_.windows[m].on_result(
      flight.slot, flight.phase, digest_of(flight.operation), flight.number, state_.now, delivery);
  if (verdict != core::ResultVerdict::kAccepted) return;
  const uint32_t operation = delivery.ticket;
  ++state_.held[m][flight.slot];
  if (operation >= state_.submitted[m] || delivery.chunk >= config_.operations[operation].chunks) {
    return fail("a chunk was delivered that does not exist");
  }
  if (flight.content != expected_sum(operation, 0, delivery.chunk, kMembers)) {
    fail("a wrong sum was delivered");
  }
  const auto bit = static_cast<uint8_t>(1u << delivery.chunk);
  if ((state_.delivered[m][operation] & bit) != 0) fail("a chunk was delivered twice");
  state_.delivered[m][operation] |= bit;
  const uint32_t all = (1u << config_.operations[operation].chunks) - 1;
  if (delivery.operation_complete != (state_.delivered[m][operation] == all)) {
    fail("an operation was called complete at the wrong time");
  }
  send_ready(m);
}

void SmallWorld::window_timer(uint16_t member, bool probes_due, bool gaps_due) {
  state_.now = state_.now + kHour;
  std::array<core::Want, kSlots> probe_room, gap_room;
  BoundedList<core::Want> probes(std::span<core::Want>(probe_room).first(probes_due ? kSlots : 0));
  BoundedList<core::Want> gaps(std::span<core::Want>(gap_room).first(gaps_due ? kSlots : 0));
  state_.windows[member].on_timeout(state_.now, std::chrono::milliseconds(1), probes, gaps);
  Flight flight;
  flight.member = static_cast<uint8_t>(member);
  for (const core::Want& want : probes) {
    flight.kind = Kind::kProbe;
    flight.slot = static_cast<uint8_t>(want.slot);
    flight.phase = want.phase_or_number;
    put(flight);
  }
  for (const core::Want& want : gaps) {
    flight = Flight{.kind = Kind::kGap, .member = flight.member};
    flight.operation = static_cast<uint8_t>(want.digest - 1);
    flight.number = want.phase_or_number;
    put(flight);
  }
}

void SmallWorld::ask_timer() {
  state_.now = state_.now + kHour;
  std::array<core::Ask, kMembers * kSlots> room;
  BoundedList<core::Ask> asks(room);
  state_.pool.on_timeout(state_.now, asks);
  send_asks(asks);
}

bool SmallWorld::complete() const {
  for (uint16_t m = 0; m < kMembers; ++m) {
    if (state_.submitted[m] < config_.operations.size() || !state_.windows[m].idle()) return false;
  }
  return true;
}

bool SmallWorld::finishes() {
  // Each round brings at least one slot one phase further; far more than that means "never".
  constexpr int kRoundsMax = 100;
  for (int round = 0; round < kRoundsMax && violation_.empty(); ++round) {
    while (state_.flights_count > 0 && violation_.empty()) arrive(pick(0));
    if (complete()) return violation_.empty();
    for (uint16_t m = 0; m < kMembers; ++m) {
      if (state_.submitted[m] < config_.operations.size()) submit(m);
      window_timer(m, true, true);
    }
    ask_timer();
  }
  return false;
}

uint64_t SmallWorld::fingerprint() {
  uint64_t hash = 0;
  const auto add = [&](uint64_t value) { hash = fold_step(hash, value); };
  for (size_t i = 0; i < state_.flights_count; ++i) {
    const Flight& f = state_.flights[i];
    add(static_cast<uint64_t>(f.kind) << 40 | uint64_t{f.member} << 32 | uint64_t{f.slot} << 24 |
        uint64_t{f.operation} << 16 | f.chunk);
    add(uint64_t{f.phase} << 32 | f.number);
    add(f.content);
  }
  add(uint64_t{state_.drops} << 16 | uint64_t{state_.doubles} << 8 | state_.timers);
  const State saved = state_;
  for (uint16_t s = 0; s < kSlots; ++s) {
    const core::StoredResult& stored = state_.pool.stored(s);
    add(uint64_t{state_.pool.phase(s)} << 32 | state_.pool.counted(s));
    add(state_.pool.is_open(s) ? state_.pool.collecting_digest(s) : 0);
    for (uint16_t m = 0; m < kMembers; ++m) add(state_.pool.has_counted(s, m));
    add(stored.valid ? uint64_t{stored.digest} << 32 | stored.chunk : 0);
    add(stored.number);
  }
  add(state_.pool.oldest_open());
  for (const uint8_t count : state_.completions) add(count);
  std::array<core::Ask, kMembers * kSlots> ask_room;
  BoundedList<core::Ask> asks(ask_room);
  state_.pool.on_timeout(state_.now + kHour, asks);
  for (const core::Ask& ask : asks) add(uint64_t{ask.member} << 16 | ask.slot);
  for (uint16_t m = 0; m < kMembers; ++m) {
    core::SendWindow& window = state_.windows[m];
    add(uint64_t{state_.submitted[m]} << 32 | window.in_flight());
    for (const uint8_t bits : state_.delivered[m]) add(bits);
    for (uint16_t s = 0; s < kSlots; ++s) add(window.phase(s));
    std::array<core::Want, kSlots> probe_room, gap_room;
    BoundedList<core::Want> probes(probe_room), gaps(gap_room);
    window.on_timeout(state_.now + kHour, std::chrono::milliseconds(1), probes, gaps);
    for (const auto& list : {probes, gaps}) {
      add(list.size());
      for (const core::Want& want : list) {
        add(uint64_t{want.slot} << 48 | uint64_t{want.phase_or_number} << 16 | want.digest);
      }
    }
    std::array<core::Outgoing, 2 * kSlots> out_room;
    BoundedList<core::Outgoing> out(out_room);
    window.fill(state_.now, kSlots, out);
    for (const core::Outgoing& next : out) {
      add(uint64_t{next.slot} << 48 | uint64_t{next.ticket} << 32 | next.chunk);
    }
  }
  state_ = saved;
  return hash;
}

std::string SmallWorld::describe(const Step& step) const {
  constexpr const char* kSteps[] = {"deliver",   "drop",    "double",           "submit by",
                                    "probes of", "gaps of", "asks of the shard"};
  constexpr const char* kKinds[] = {"contribution", "result", "probe", "gap", "ask"};
  std::string text = kSteps[static_cast<int>(step.kind)];
  if (step.kind > Step::Kind::kDouble) {
    return step.kind == Step::Kind::kAsk ? text : text + " member " + std::to_string(step.which);
  }
  const Flight& f = state_.flights[step.which];
  return text + " " + kKinds[static_cast<int>(f.kind)] + " of member " + std::to_string(f.member) +
         " slot " + std::to_string(f.slot) + " phase " + std::to_string(f.phase) + " operation " +
         std::to_string(f.operation) + " chunk " + std::to_string(f.chunk) + " number " +
         std::to_string(f.number);
}

}  // namespace sumcast::sim

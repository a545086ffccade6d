#include "collective/engine.h"

#include <algorithm>

#include "auth/derive.h"
#include "base/assert.h"
#include "collective/engine_state.h"
#include "numeric/codec.h"
#include "numeric/fixed.h"
#include "runtime/clock.h"

namespace sumcast::collective {
namespace {

constexpr uint64_t kWakeToken = 0;
constexpr uint64_t kDirectToken = 1;  // From 2 on: `socket_paths_`.
constexpr uint64_t kShardTokens = uint64_t{1} << 32;
constexpr Duration kGrace = std::chrono::milliseconds(2);
constexpr Duration kSleepMax = std::chrono::milliseconds(200);
constexpr uint32_t kReceiveBuffers = 16;
constexpr uint16_t kOperationsMax = 256;  // Incomplete operations of a group, per window.

}  // namespace

Result<std::unique_ptr<Engine>> Engine::create(EngineOptions options) {
  auto poller = net::Poller::create();
  if (!poller) return fail(poller.error());
  auto wake = net::WakeUp::create();
  if (!wake) return fail(wake.error());
  auto engine =
      std::unique_ptr<Engine>(new Engine(std::move(options), std::move(*poller), std::move(*wake)));
  if (auto r = engine->poller_.add(engine->wake_.fd(), kWakeToken); !r) return fail(r.error());
  engine->poller_.set_spin(engine->options_.spin);

  ShardHostOptions shard;
  shard.listen = engine->options_.local.with_port(0);
  shard.socket_buffer_bytes = engine->options_.socket_buffer_bytes;
  shard.multicast = engine->options_.multicast;
  shard.receive_buffers = 32;
  shard.faults = engine->options_.faults;
  shard.faults.seed ^= 0x5A5A;
  auto host = ShardHost::open(std::move(shard), engine->poller_, kShardTokens);
  if (!host) return fail(host.error());
  engine->host_ = std::move(*host);

  net::UdpOptions udp;
  udp.local = engine->options_.local.with_port(0);
  udp.receive_buffer_bytes = udp.send_buffer_bytes = engine->options_.socket_buffer_bytes;
  auto socket = net::UdpSocket::open(udp);
  if (!socket) return fail(socket.error());
  engine->direct_socket_ = std::make_unique<net::UdpSocket>(std::move(*socket));
  if (auto r = engine->poller_.add(engine->direct_socket_->fd(), kDirectToken); !r) {
    return fail(r.error());
  }
  return engine;
}

Engine::Engine(EngineOptions options, net::Poller poller, net::WakeUp wake)
    : options_(std::move(options)),
      poller_(std::move(poller)),
      wake_(std::move(wake)),
      buffers_(kReceiveBuffers),
      batches_(8),
      faults_(options_.faults) {}

Engine::~Engine() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_.signal();
  }
  changed_.notify_all();
  if (background_.joinable()) background_.join();
}

Result<void> Engine::start(const control::JobPlan& plan, Rank rank,
                           std::span<const net::Endpoint> daemon_shards, bool use_aggregator,
                           bool use_direct, Instant deadline) {
  std::unique_lock lock(mutex_);
  rank_ = rank;
  incarnation_ = plan.incarnation;
  epoch_ = plan.epoch;
  std::optional<auth::DatagramKey> key;
  if (options_.key) key = auth::derive_worker_key(*options_.key, incarnation_, epoch_, rank);
  signer_.emplace(rank.value, key);
  host_->set_index(static_cast<uint16_t>(kEmbeddedShardBit | rank.value));
  host_->start_job(plan, options_.key);
  host_->set_local_member(incarnation_, rank, this);
  serves_shard_ = use_direct && plan.members.size() > 1;
  direct_group_ = direct_multicast_group(plan);
  cells_.resize((net::kSegmentsMax + 1) * (wire::kHeaderBytes + wire::kTagBytes));
  staging_.resize(size_t{net::kSegmentsMax} * kDatagramBytesMax);
  if (use_aggregator) {
    if (auto r = add_aggregator_paths(daemon_shards); !r) return r;
  }
  if (use_direct) {
    if (auto r = add_direct_paths(plan); !r) return r;
  }
  driving_ = true;
  lock.unlock();
  auto proved = prove_paths(deadline);
  lock.lock();
  driving_ = false;
  if (!proved) return proved;
  size_windows(is_address_shared(plan, host_->endpoint()));
  background_ = std::thread([this] { run_background(); });
  return {};
}

uint32_t Engine::slots_wanted() const {
  uint32_t most = 1;
  for (const auto& path : paths_) most = std::max(most, path->congestion.limit());
  return most;
}

void Engine::open_group(const control::GroupPlan& plan) {
  std::lock_guard lock(mutex_);
  host_->open_group(plan);
  auto group = std::make_unique<Group>();
  group->id = plan.group;
  group->plan = plan;
  const auto me = std::ranges::find(plan.ranks, rank_);
  SUMCAST_ASSERT(me != plan.ranks.end());
  group->my_member = static_cast<uint16_t>(me - plan.ranks.begin());
  group->lanes_bytes_max =
      static_cast<uint32_t>(plan.payload_bytes - wire::kHeaderBytes - signer_->tag_bytes());
  group->last_change = runtime::monotonic_now();
  for (size_t route = 0; route < kRoutes; ++route) {
    core::SendWindowConfig config;
    config.slots = static_cast<uint16_t>(plan.slot_count);
    config.operations = kOperationsMax;
    std::vector<Path*> shards = routes_[route];
    if (route == static_cast<size_t>(Route::kDirect) && !shards.empty()) {
      // Under `direct` shard j of a group lives at its member j.
      std::vector<Path*> members;
      for (const Rank rank : plan.ranks) members.push_back(shards[rank.value]);
      shards = std::move(members);
    }
    for (Path* path : shards) {
      group->windows[route].push_back(std::make_unique<Window>(
          *group, *path, static_cast<uint32_t>(group->windows[route].size()), config));
    }
  }
  const size_t end = size_t{plan.slot_base.value} + plan.slot_count;
  if (end > group_of_slot_.size()) group_of_slot_.resize(end, nullptr);
  for (uint32_t i = 0; i < plan.slot_count; ++i) {
    group_of_slot_[plan.slot_base.value + i] = group.get();
  }
  auto place = std::ranges::find_if(groups_, [](const auto& g) { return g == nullptr; });
  if (place == groups_.end()) place = groups_.insert(groups_.end(), nullptr);
  *place = std::move(group);
  // Where windows are short of room, all ranks serve groups in the same order: a rank that filled
  // its window for one group would wait for a rank that filled it for another.
  std::ranges::sort(groups_, [](const auto& a, const auto& b) {
    return a != nullptr && (b == nullptr || a->id < b->id);
  });
}

void Engine::close_group(GroupId id) {
  abort(id, Error{ErrorCode::kAborted, "the group was closed"});
  std::lock_guard lock(mutex_);
  // The shard keeps its part until the slots are granted again (ShardHost::open_group).
  for (auto& group : groups_) {
    if (!group || group->id != id) continue;
    std::ranges::replace(group_of_slot_, group.get(), nullptr);
    group.reset();
  }
}

Engine::Group* Engine::find_group(GroupId id) {
  for (auto& group : groups_) {
    if (group && group->id == id) return group.get();
  }
  return nullptr;
}

Engine::Path* Engine::path_of_sender(uint16_t sender) {
  if ((sender & wire::kShardBit) == 0) return nullptr;
  const auto shard = static_cast<uint16_t>(sender & ~wire::kShardBit);
  const bool embedded = (shard & kEmbeddedShardBit) != 0;
  const auto& shards = routes_[static_cast<size_t>(embedded ? Route::kDirect : Route::kAggregator)];
  const auto index = static_cast<size_t>(shard & ~kEmbeddedShardBit);
  return index < shards.size() ? shards[index] : nullptr;
}

Result<OperationPtr> Engine::submit(GroupId id, Route route, wire::OperationDescriptor descriptor,
                                    const void* input, void* output, const RowLists& rows,
                                    Instant deadline) {
  std::lock_guard lock(mutex_);
  Group* group = find_group(id);
  if (group == nullptr) return fail(ErrorCode::kInvalidArgument, "the group was closed");
  if (group->aborted) return fail(*group->aborted);
  SUMCAST_ASSERT(!group->windows[static_cast<size_t>(route)].empty());
  const Instant now = runtime::monotonic_now();
  const auto enqueue = [&](wire::OperationDescriptor what, const void* in, void* out) {
    what.group = id;
    what.sequence = ++group->posted;
    auto operation = std::make_shared<Operation>();
    operation->descriptor = what;
    operation->route = route;
    operation->digest = wire::digest_of(what);
    operation->input = static_cast<const std::byte*>(in);
    operation->output = static_cast<std::byte*>(out);
    operation->posted_at = now;
    operation->deadline = deadline;
    operation->group_size = static_cast<uint32_t>(group->plan.ranks.size());
    group->history[what.sequence % Group::kHistory] = what;
    group->unfinished.push_back(operation);
    ++group->waiting;
    return operation;
  };
  std::shared_ptr<std::vector<uint8_t>> codes;
  if (descriptor.format == WireFormat::kFixed && descriptor.count > 0) {
    // The exponents of this very operation, ahead of its lanes (docs/numerics.md).
    uint64_t elements = descriptor.count;
    if (descriptor.kind == wire::OperationKind::kReduceScatter)
      elements *= group->plan.ranks.size();
    const size_t blocks = numeric::block_count(elements);
    codes = std::make_shared<std::vector<uint8_t>>(blocks * sizeof(numeric::BlockCode));
    numeric::block_codes(static_cast<const float*>(input), elements,
                         reinterpret_cast<numeric::BlockCode*>(codes->data()));
    wire::OperationDescriptor ahead;
    ahead.kind = wire::OperationKind::kBlockCodes;
    ahead.type = ElementType::kU8;
    ahead.reduction = Reduction::kMax;
    ahead.count = codes->size();
    ahead.part_of = descriptor.part_of;
    enqueue(ahead, codes->data(), codes->data())->block_codes = codes;
  }
  OperationPtr operation = enqueue(descriptor, input, output);
  operation->block_codes = codes;
  operation->row_slots = rows.slots;
  operation->rows_touched = rows.touched;
  if (group->waiting == group->unfinished.size()) group->last_change = now;
  if (!tuned_in_[static_cast<size_t>(route)]) tune_in(route, now);
  start_operations(*group);
  pump(now);
  if (driving_ && next_deadline() < driver_until_) wake_.signal();
  // A parked background thread must hear of work that nobody may come to wait for. One that is not
  // parked looks for itself: waking it for each operation would cost a context switch each.
  if (background_parked_) changed_.notify_all();
  return operation;
}

bool Engine::wait(const Operation& operation, Instant deadline) {
  if (operation.done.load(std::memory_order_acquire)) return true;
  std::unique_lock lock(mutex_);
  ++callers_waiting_;
  if (background_driving_) wake_.signal();
  while (!operation.done.load(std::memory_order_relaxed)) {
    if (runtime::monotonic_now() >= deadline) break;
    if (driving_) {
      // Someone else drives: sleep until things change, or for as long as the deadline allows.
      const Duration left = deadline - runtime::monotonic_now();
      changed_.wait_for(lock, std::min<Duration>(left, kSleepMax));
      continue;
    }
    driving_ = true;
    while (!operation.done.load(std::memory_order_relaxed)) {
      drive_once(lock, deadline);
      if (runtime::monotonic_now() >= deadline) break;
    }
    driving_ = false;
    last_driven_ = runtime::monotonic_now();
  }
  --callers_waiting_;
  const bool others = callers_waiting_ > 0;
  lock.unlock();
  if (others) changed_.notify_all();
  return operation.done.load(std::memory_order_acquire);
}

/// One turn: sleep until something is due or arrives, then handle all of it. `driving_` is ours.
void Engine::drive_once(std::unique_lock<std::mutex>& lock, Instant until) {
  Instant now = runtime::monotonic_now();
  driver_until_ = std::min(until, next_deadline());
  std::array<net::Event, 16> events;
  const Duration patience = std::clamp<Duration>(driver_until_ - now, Duration{0}, kSleepMax);
  lock.unlock();
  const size_t count = poller_.wait(events, patience);
  lock.lock();
  driver_until_ = Instant{};  // Awake: nobody needs to wake us.
  now = runtime::monotonic_now();
  for (size_t i = 0; i < count; ++i) {
    if (events[i].token == kWakeToken) {
      wake_.drain();
    } else if (events[i].token >= kShardTokens) {
      host_->receive(events[i].token, now);
    } else {
      receive(events[i].token, now);
    }
  }
  run_timers(now);
  pump(now);
}

bool Engine::has_work() const {
  if (serves_shard_) return true;
  for (const auto& group : groups_) {
    if (group && !group->unfinished.empty()) return true;
  }
  return false;
}

void Engine::run_background() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const Instant now = runtime::monotonic_now();
    bool orphaned = false;  // Operations that no caller waits for.
    for (const auto& group : groups_) orphaned |= group && !group->unfinished.empty();
    const Instant ready = orphaned && callers_waiting_ == 0 ? now : last_driven_ + kGrace;
    if (driving_ || callers_waiting_ > 0 || !has_work()) {
      background_parked_ = !has_work();
      changed_.wait_for(lock, background_parked_ ? kSleepMax : kGrace);
      background_parked_ = false;
      continue;
    }
    if (now < ready) {
      changed_.wait_for(lock, ready - now);
      continue;
    }
    driving_ = background_driving_ = true;
    while (!stopping_ && callers_waiting_ == 0 && has_work()) drive_once(lock, Instant::never());
    driving_ = background_driving_ = false;
    changed_.notify_all();
  }
}

/// All that was received is handled: results that left the shard, and have not come, were lost
/// (P6).
void Engine::probe_again(Window& window) {
  std::erase_if(window.left, [&](const core::Want& want) {
    const auto expected = window.core.expectation(want.slot);
    return !expected.in_flight || expected.phase != want.phase_or_number;
  });
  counters_.probes += window.left.size();
  counters_.probes_again += window.left.size();
  for (std::span<const core::Want> rest = window.left; !rest.empty();) {
    const auto part = rest.first(std::min<size_t>(rest.size(), kNotesMax));
    send_notes(window.path, wire::Kind::kProbe, window.group.plan.slot_base.value, part);
    rest = rest.subspan(part.size());
  }
  window.left.clear();
}

void Engine::run_timers(Instant now) {
  if (faults_.active()) {
    faults_.release_due(now, [&](std::span<const std::byte> datagram, uint32_t origin) {
      on_datagram(datagram, origin == 0 ? nullptr : paths_[origin - 1].get(), now);
    });
  }
  host_->on_timeout(now);
  for (const auto& path : paths_) {
    if (path->tune_at <= now) run_tuning(*path, now);
    check_hearing(*path, now);
  }
  std::array<core::Want, kNotesMax> probe_memory, gap_memory;
  for (auto& group : groups_) {
    if (!group || group->unfinished.empty()) continue;
    for (auto& route : group->windows) {
      for (auto& window : route) {
        if (window->path.local || window->core.idle()) continue;
        if (!window->left.empty()) probe_again(*window);
        if (window->deadline() > now) continue;
        BoundedList<core::Want> probes(probe_memory), gaps(gap_memory);
        const Duration patience = window->silent(now) ? window->patience() : window->path.rtt.rto();
        const uint32_t lost = window->core.on_timeout(now, patience, probes, gaps);
        window->path.congestion.on_results_lost(lost);
        send_notes(window->path, wire::Kind::kProbe, group->plan.slot_base.value, probes.view());
        send_notes(window->path, wire::Kind::kGap, group->plan.slot_base.value, gaps.view());
        counters_.probes += probes.size();
        counters_.gaps += gaps.size();
      }
    }
  }
}

Instant Engine::next_deadline() const {
  Instant due = host_->next_deadline();
  if (faults_.active()) due = std::min(due, faults_.next_due());
  for (const auto& path : paths_) due = std::min({due, path->retry_at, path->tune_at});
  for (const auto& group : groups_) {
    if (!group || group->unfinished.empty()) continue;
    for (const auto& route : group->windows) {
      for (const auto& window : route) {
        if (window->path.local || window->core.idle()) continue;
        due = std::min(due, window->deadline());
      }
    }
  }
  return due;
}

void Engine::abort(std::optional<GroupId> id, const Error& error) {
  std::lock_guard lock(mutex_);
  for (auto& group : groups_) {
    if (!group || (id && group->id != *id)) continue;
    if (!group->aborted) group->aborted = error;
    host_->poison_group(incarnation_, group->id);
    for (auto& route : group->windows) {
      for (auto& window : route) {
        window->path.in_flight -= window->core.in_flight();
        window->core.abandon();
        for (auto& operation : window->operations) operation.reset();
      }
    }
    while (!group->unfinished.empty()) {
      const OperationPtr operation = group->unfinished.front();
      group->unfinished.pop_front();
      operation->error = *group->aborted;
      operation->done.store(true, std::memory_order_release);
    }
    group->waiting = 0;
  }
  wake_.signal();
  changed_.notify_all();
}

std::vector<control::GroupActivity> Engine::activity() {
  std::lock_guard lock(mutex_);
  const Instant now = runtime::monotonic_now();
  std::vector<control::GroupActivity> all;
  for (const auto& group : groups_) {
    if (!group) continue;
    control::GroupActivity one;
    one.group = group->id;
    one.posted = group->posted;
    one.completed = group->completed;
    Instant since = group->last_change;
    if (!group->unfinished.empty()) {
      one.operation = wire::describe(group->unfinished.front()->descriptor);
      since = group->unfinished.front()->posted_at;
      one.left = control::time_left(group->unfinished.front()->deadline, now);
    } else if (group->posted > 0) {
      one.operation = wire::describe(group->history[group->posted % Group::kHistory]);
    }
    one.age = std::chrono::duration_cast<std::chrono::milliseconds>(now - since);
    one.tag = user_tag_;
    all.push_back(std::move(one));
  }
  return all;
}

std::optional<wire::OperationDescriptor> Engine::find_operation(GroupId id, uint64_t sequence,
                                                                uint32_t digest) {
  std::lock_guard lock(mutex_);
  const Group* group = find_group(id);
  if (group == nullptr) return std::nullopt;
  for (uint32_t back = 0; back < Group::kHistory && back < group->posted; ++back) {
    const auto& descriptor = group->history[(group->posted - back) % Group::kHistory];
    if (sequence != 0 ? descriptor.sequence == sequence : wire::digest_of(descriptor) == digest) {
      return descriptor;
    }
  }
  return std::nullopt;
}

void Engine::set_user_tag(std::string tag) {
  std::lock_guard lock(mutex_);
  user_tag_ = std::move(tag);
}

void Engine::set_mismatch_observer(MismatchObserver observer) {
  std::lock_guard lock(mutex_);
  host_->set_mismatch_observer(std::move(observer));
}

EngineCounters Engine::counters() {
  std::lock_guard lock(mutex_);
  EngineCounters total = counters_;
  for (const auto& group : groups_) {
    if (!group) continue;
    for (const auto& route : group->windows) {
      for (const auto& window : route) total.repeats += window->core.repeats();
    }
  }
  return total;
}

ShardCounters Engine::shard_counters() {
  std::lock_guard lock(mutex_);
  return host_->counters();
}

}  // namespace sumcast::collective

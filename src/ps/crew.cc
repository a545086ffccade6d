#include "ps/crew.h"

#include <algorithm>

#include "net/descriptor.h"
#include "ps/customer_core.h"

namespace sumcast::ps {
namespace {

/// So long nobody leads before an attendant steps in. Long beside a handler of a small message or a
/// program's pause between two requests, short beside what people notice.
constexpr Duration kGrace = std::chrono::milliseconds(1);
constexpr Duration kWatchTick = std::chrono::milliseconds(2);
constexpr int kTicksUntilDoze = 5;

thread_local const ::ps::Customer::Core* running_core = nullptr;

std::chrono::steady_clock::time_point on_clock(Instant at) {
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(at.ns));
}

}  // namespace

bool Crew::is_running(const ::ps::Customer::Core* core) { return running_core == core; }

void Crew::start(size_t attendants) {
  const Lock lock(mutex_);
  stopping_ = false;
  free_since_ = net::monotonic_now();
  for (size_t i = 0; i < attendants; ++i) threads_.emplace_back([this] { attend(); });
}

void Crew::add_attendant() {
  const Lock lock(mutex_);
  if (!stopping_ && !threads_.empty()) threads_.emplace_back([this] { attend(); });
}

void Crew::stop() {
  std::vector<std::thread> threads;
  {
    const Lock lock(mutex_);
    stopping_ = true;
    threads.swap(threads_);
  }
  ship_.wake();
  rested_.notify_all();
  changed_.notify_all();
  observed_.notify_all();
  for (std::thread& thread : threads) thread.join();
  const Lock lock(mutex_);
  for (const CorePtr& core : ready_) {
    core->queued = false;
    core->inbox.clear();
  }
  ready_.clear();
}

void Crew::attend() {
  Lock lock(mutex_);
  bool mine = true;  // The last to lead was this thread, so there is nobody to wait for.
  while (!stopping_) {
    if (const CorePtr core = take_ready(nullptr)) {
      run(lock, core);
    } else if (may_lead(mine)) {
      mine = true;
      lead(lock, Duration::max());
      if (displace_) mine = false;
    } else {
      rest(lock);
      mine = false;
    }
  }
}

bool Crew::may_lead(bool mine) const {
  if (led_ || displace_) return false;
  return (mine && waiters_ == 0) || net::monotonic_now() - free_since_ > kGrace;
}

/// Polls once.
void Crew::lead(Lock& lock, Duration longest) {
  led_ = true;
  lock.unlock();
  ship_.poll(longest, arrivals_);
  lock.lock();
  led_ = false;
  free_since_ = net::monotonic_now();
  if (!arrivals_.empty()) ++activity_;
  for (Arrival& arrival : arrivals_) put(std::move(arrival));
  arrivals_.clear();
  leave_lead();
}

/// Sees to it that somebody will lead again, should this thread not.
void Crew::leave_lead() {
  if (dozing_ && !ready_.empty()) rested_.notify_all();
  if (ready_.size() > 1) rested_.notify_one();
  if (sleepers_ > 0) changed_.notify_all();
}

void Crew::rest(Lock& lock) {
  ++resting_;
  if (watched_) {
    rested_.wait(lock);
  } else {
    watched_ = true;
    uint64_t seen = activity_;
    for (int quiet = 0; !stopping_ && ready_.empty() && !may_lead(false);) {
      if (quiet < kTicksUntilDoze || !led_) {
        rested_.wait_for(lock, kWatchTick);
      } else {
        dozing_ = true;
        rested_.wait(lock);
        dozing_ = false;
      }
      quiet = activity_ == seen ? quiet + 1 : 0;
      seen = activity_;
    }
    watched_ = false;
    if (resting_ > 1) rested_.notify_one();  // Another one watches.
  }
  --resting_;
}

void Crew::put(Arrival arrival) {
  ::ps::Customer::Core& core = *arrival.to;
  if (core.retired) return;
  core.inbox.push_back(std::move(arrival.message));
  make_ready(arrival.to);
}

void Crew::make_ready(const CorePtr& core) {
  if (core->inbox.empty() || core->busy || core->queued || core->closed || core->retired) return;
  core->queued = true;
  ready_.push_back(core);
}

void Crew::open(const CorePtr& core) {
  const Lock lock(mutex_);
  if (!core->closed) return;
  core->closed = false;
  make_ready(core);
  rested_.notify_one();
  tell_waiters();
}

/// The next customer with something to do, or the wanted one if it has.
CorePtr Crew::take_ready(const ::ps::Customer::Core* wanted) {
  const auto it = wanted == nullptr
                      ? ready_.begin()
                      : std::find_if(ready_.begin(), ready_.end(),
                                     [&](const CorePtr& core) { return core.get() == wanted; });
  if (it == ready_.end()) return nullptr;
  CorePtr core = std::move(*it);
  ready_.erase(it);
  core->queued = false;
  return core;
}

/// Handles what is in the inbox. An exception of a handler ends the process, in whichever thread.
void Crew::run(Lock& lock, const CorePtr& core) noexcept {
  core->busy = true;
  std::vector<::ps::Message> batch;
  batch.swap(core->inbox);
  lock.unlock();
  const auto* const outer = std::exchange(running_core, core.get());
  ship_.begin_batch();
  for (const ::ps::Message& message : batch) core->process(message);
  ship_.end_batch();
  running_core = outer;
  batch.clear();
  lock.lock();
  core->busy = false;
  make_ready(core);
  tell_waiters();
}

/// Waiters look whether they are done: those who sleep, and the one that may be polling.
void Crew::tell_waiters() {
  if (sleepers_ > 0) changed_.notify_all();
  if (led_by_waiter_) ship_.wake();
}

void Crew::deliver(Arrival arrival) {
  const Lock lock(mutex_);
  ++activity_;
  put(std::move(arrival));
  rested_.notify_one();
  tell_waiters();
}

void Crew::notify() {
  const Lock lock(mutex_);
  observed_.notify_all();
  tell_waiters();
}

bool Crew::wait(::ps::Customer::Core* own, const std::function<bool()>& done, Instant deadline) {
  Lock lock(mutex_);
  bool is_done = false;
  if (own == nullptr) {
    const auto settled = [&] { return (is_done = done()) || stopping_; };
    // Servers stand here for as long as the job runs; the clock takes no time that never comes.
    Instant now = net::monotonic_now();
    do {
      const Instant latest = std::min(deadline, now + Duration(24h));
      if (observed_.wait_until(lock, on_clock(latest), settled)) break;
      now = net::monotonic_now();
    } while (now < deadline);
    return is_done;
  }
  ++waiters_;
  while (!(is_done = done()) && !stopping_) {
    const Instant now = net::monotonic_now();
    if (now >= deadline) break;
    if (const CorePtr core = take_ready(own)) {
      run(lock, core);
      continue;
    }
    if (!led_) {
      displace_ = false;
      led_by_waiter_ = true;
      lead(lock, deadline - now);
      led_by_waiter_ = false;
      continue;
    }
    if (!led_by_waiter_ && !displace_) {
      displace_ = true;
      ship_.wake();
    }
    ++sleepers_;
    changed_.wait_until(lock, on_clock(std::min(deadline, now + Duration(1h))));
    --sleepers_;
  }
  --waiters_;
  if (waiters_ == 0) displace_ = false;
  if (!led_) {
    if (dozing_) rested_.notify_all();
    if (sleepers_ > 0) changed_.notify_one();
  }
  return is_done;
}

void Crew::retire(const CorePtr& core) {
  Lock lock(mutex_);
  core->retired = true;
  core->inbox.clear();
  if (is_running(core.get())) return;
  ++sleepers_;
  changed_.wait(lock, [&] { return !core->busy; });
  --sleepers_;
}

}  // namespace sumcast::ps

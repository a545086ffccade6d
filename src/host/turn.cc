#include "host/turn.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

#include "runtime/clock.h"

namespace sumcast::host {
namespace {

constexpr uint32_t kAbortBit = 1;
constexpr Duration kLookSpan = std::chrono::microseconds(20);
constexpr int kLooksPerClock = 64;  // Reading the clock costs as much as so many looks.

uint32_t* raw(Turn& turn) {
  static_assert(sizeof(turn.word) == sizeof(uint32_t));
  return reinterpret_cast<uint32_t*>(&turn.word);
}

bool reached(uint32_t word, uint32_t target) {
  return static_cast<int32_t>((word & ~kAbortBit) - 2 * target) >= 0;
}

/// Sleeps while the word is `seen`, until `deadline`. Not FUTEX_PRIVATE: other processes wake us.
void sleep_on(Turn& turn, uint32_t seen, Instant deadline) {
  timespec until{};
  until.tv_sec = deadline.ns / 1'000'000'000;
  until.tv_nsec = deadline.ns % 1'000'000'000;
  ::syscall(SYS_futex, raw(turn), FUTEX_WAIT_BITSET, seen,
            deadline == Instant::never() ? nullptr : &until, nullptr, FUTEX_BITSET_MATCH_ANY);
}

void wake_all(Turn& turn) {
  ::syscall(SYS_futex, raw(turn), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// Until there is something to see, or the time is over.
void look(const Turn& turn, uint32_t target, const Looking& looking) {
  const Instant until = runtime::monotonic_now() + looking.span;
  for (int looks = 1;; ++looks) {
    const uint32_t seen = turn.word.load(std::memory_order_acquire);
    if ((seen & kAbortBit) != 0 || reached(seen, target)) return;
    const bool asks_clock = looking.yields || looks % kLooksPerClock == 0;
    if (asks_clock && runtime::monotonic_now() >= until) return;
    if (looking.yields) {
      ::sched_yield();
    } else {
      pause_briefly();
    }
  }
}

}  // namespace

Looking looking_for(uint32_t ranks, uint32_t cores, Duration longest) {
  return {std::min(kLookSpan, longest), ranks > cores};
}

void arrive(Turn& turn, uint32_t target) {
  const uint32_t now = turn.word.fetch_add(2, std::memory_order_seq_cst) + 2;
  // A waiter announces itself before it looks again, so one of the two sees the other.
  if (reached(now, target) && turn.sleepers.load(std::memory_order_seq_cst) != 0) wake_all(turn);
}

Waited wait_for(Turn& turn, uint32_t target, Instant deadline, const Looking& looking) {
  uint32_t seen = turn.word.load(std::memory_order_acquire);
  if (reached(seen, target)) return Waited::kReached;
  if ((seen & kAbortBit) != 0) return Waited::kAborted;
  if (looking.span > Duration{0}) look(turn, target, looking);
  turn.sleepers.fetch_add(1, std::memory_order_seq_cst);
  Waited result = Waited::kTimeout;
  for (;;) {
    seen = turn.word.load(std::memory_order_seq_cst);
    if (reached(seen, target)) {
      result = Waited::kReached;
      break;
    }
    if ((seen & kAbortBit) != 0) {
      result = Waited::kAborted;
      break;
    }
    if (runtime::monotonic_now() >= deadline) break;
    sleep_on(turn, seen, deadline);
  }
  turn.sleepers.fetch_sub(1, std::memory_order_relaxed);
  return result;
}

void abort(Turn& turn) {
  turn.word.fetch_or(kAbortBit, std::memory_order_seq_cst);
  wake_all(turn);
}

uint32_t usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  // More than 1,024 cores do not fit the set: then surely nobody shares one.
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1024;
  return static_cast<uint32_t>(CPU_COUNT(&set));
}

}  // namespace sumcast::host

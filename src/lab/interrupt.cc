#include "lab/interrupt.h"

#include <array>
#include <atomic>
#include <cerrno>

#include "base/assert.h"

namespace sumcast::lab {
namespace {

// A signal handler may touch nothing but lock-free atomics, hence a fixed table. 256 workers with a
// few helpers each fit; children beyond that are not told of a Ctrl-C but still die with us.
constexpr size_t kChildrenMax = 2048;
std::array<std::atomic<pid_t>, kChildrenMax> children{};
std::atomic<int> first_signal{0};
std::atomic<bool> installed{false};
static_assert(std::atomic<pid_t>::is_always_lock_free);

void signal_children(int signal) {
  for (const std::atomic<pid_t>& child : children) {
    const pid_t leader = child.load(std::memory_order_relaxed);
    if (leader > 0) ::kill(-leader, signal);
  }
}

void on_signal(int signal) {
  const int saved_errno = errno;
  int none = 0;
  if (first_signal.compare_exchange_strong(none, signal)) {
    signal_children(SIGTERM);
  } else {
    signal_children(SIGKILL);
    ::signal(SIGINT, SIG_DFL);
    ::signal(SIGTERM, SIG_DFL);
  }
  errno = saved_errno;
}

}  // namespace

ScopedInterrupt::ScopedInterrupt() {
  const bool was_installed = installed.exchange(true);
  SUMCAST_ASSERT(!was_installed);
  first_signal = 0;
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  sigaddset(&action.sa_mask, SIGINT);
  sigaddset(&action.sa_mask, SIGTERM);
  ::sigaction(SIGINT, &action, &old_int_);
  ::sigaction(SIGTERM, &action, &old_term_);
}

ScopedInterrupt::~ScopedInterrupt() {
  ::sigaction(SIGINT, &old_int_, nullptr);
  ::sigaction(SIGTERM, &old_term_, nullptr);
  first_signal = 0;
  installed = false;
}

bool ScopedInterrupt::requested() { return first_signal.load() != 0; }

int ScopedInterrupt::signal_number() { return first_signal.load(); }

void remember_child(pid_t leader) {
  for (std::atomic<pid_t>& child : children) {
    pid_t free_entry = 0;
    if (child.compare_exchange_strong(free_entry, leader)) return;
  }
}

void forget_child(pid_t leader) {
  for (std::atomic<pid_t>& child : children) {
    pid_t expected = leader;
    if (child.compare_exchange_strong(expected, 0)) return;
  }
}

}  // namespace sumcast::lab

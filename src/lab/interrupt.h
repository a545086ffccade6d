// Ctrl-C for programs that run children.
//
// Children of the lab live in process groups of their own, so a terminal's Ctrl-C reaches only the
// program that built the cluster. While a ScopedInterrupt exists, SIGINT and SIGTERM set a flag and
// are passed on to every child; the program then sees its waits end, asks the flag and returns in
// the ordinary way, through its destructors. (SIGKILL needs no help: the kernel kills the children,
// see process.h, and drops the namespaces.)
#pragma once

#include <signal.h>
#include <sys/types.h>

namespace sumcast::lab {

/// Catches SIGINT and SIGTERM for its lifetime. At most one exists at a time (asserted).
///
/// The first signal sends SIGTERM to all children; the second sends SIGKILL and restores the
/// default actions, so that a third ends the program itself.
class ScopedInterrupt {
 public:
  ScopedInterrupt();
  ~ScopedInterrupt();
  ScopedInterrupt(const ScopedInterrupt&) = delete;
  ScopedInterrupt& operator=(const ScopedInterrupt&) = delete;

  /// True once SIGINT or SIGTERM came while one exists; what an earlier one saw is forgotten.
  static bool requested();
  /// The signal that came first, 0 if none. Shells expect the exit code 128 + this.
  static int signal_number();

 private:
  struct sigaction old_int_ {};
  struct sigaction old_term_ {};
};

/// The children that a signal is passed on to. Process keeps this table; nobody else needs it.
/// `leader` is a process group's leader. Any thread.
void remember_child(pid_t leader);
/// Must come before the child is reaped: after that its number may belong to a stranger.
void forget_child(pid_t leader);

}  // namespace sumcast::lab

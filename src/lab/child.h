// What happens in a child between fork and exec.
//
// The parent may have threads, so only async-signal-safe calls are allowed here: everything that
// needs memory was prepared by the parent and is only pointed at. Private to process.cc.
#pragma once

#include <sys/types.h>

namespace sumcast::lab {

/// Step of the child's preparation that failed; sent to the parent with errno.
enum class ChildStep : int {
  kParentGone,
  kContain,
  kNamespace,
  kStreams,
  kExec,
};

/// What the child sends through `report_fd` if it cannot execute the program.
struct ChildReport {
  ChildStep step;
  int error;  ///< errno.
};

/// All pointers stay valid until exec: the child has a copy of the parent's memory.
struct ChildPlan {
  const char* path = nullptr;
  char* const* argv = nullptr;
  char* const* envp = nullptr;
  int stream_fds[3] = {-1, -1, -1};  ///< -1 leaves the inherited one.
  int network_namespace = -1;        ///< -1: stay.
  int parent_handle = -1;            ///< pidfd of the parent.
  int report_fd = -1;                ///< Closed by a successful exec.
  bool die_with_parent = true;
  bool contain = false;
};

/// Forks and executes. Returns the child's pid, or -1 with errno. A contained child's pid is that
/// of the PID namespace's init, a loop of ours that ends with the program's status.
pid_t start_child(const ChildPlan& plan);

}  // namespace sumcast::lab

// Stops and continues a child with everything that it has started.
//
// Ranks of an MPI job poll for messages as long as they live. While another contender is measured
// they must not: with more ranks than processors they would be most of the load. Their daemons have
// left the process group, so the tree is followed through /proc; a contained child
// (lab/process.h) adopts what loses its parent, so nothing escapes.
#pragma once

#include <sys/types.h>

#include <string_view>
#include <utility>
#include <vector>

namespace sumcast::cli {

/// One process as /proc/<pid>/stat tells it: pid and parent. {0, 0} if the text is not one.
std::pair<pid_t, pid_t> parent_from_stat(std::string_view text);

/// `root` and all that descend from it, in `parents`: pairs of pid and parent, in any order.
std::vector<pid_t> descendants(pid_t root, const std::vector<std::pair<pid_t, pid_t>>& parents);

class ProcessTree {
 public:
  explicit ProcessTree(pid_t root) : root_(root) {}
  /// Sends SIGSTOP to everything below `root`, `root` itself excepted: it only waits.
  void pause();
  /// SIGCONT to what pause() stopped.
  void resume();

 private:
  pid_t root_;
  std::vector<pid_t> stopped_;
};

}  // namespace sumcast::cli

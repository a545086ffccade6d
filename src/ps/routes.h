// Which server answers for which server's keys, as servers die (SUMCAST_PS_REPLICAS).
//
// Server i's requests are repeated at server i + 1 (the last one's at the first), which stands in
// for it when it dies. What a server has taken over is nowhere else, so its own death then loses
// those keys. All nodes hear of deaths from the scheduler, in one order, and so agree.
//
// Pure. For one thread at a time.
#pragma once

#include <cstddef>
#include <vector>

namespace sumcast::ps {

/// Servers are named by their ranks.
class Routes {
 public:
  /// @param replicated  false: nobody stands in.
  void reset(int servers, bool replicated);

  int backup_of(int server) const { return (server + 1) % static_cast<int>(at_.size()); }
  /// Who answers for its keys: itself, another, or -1 if nobody can.
  int at(int server) const { return at_[static_cast<size_t>(server)]; }
  bool is_alive(int server) const { return alive_[static_cast<size_t>(server)]; }
  /// Whether what it does is still repeated elsewhere.
  bool has_backup(int server) const { return replicated_ && is_alive(backup_of(server)); }

  /// A server has died; says whose keys nobody can answer for any more because of it.
  std::vector<int> on_lost(int server);
  /// It has left by its own will, and nobody stands in for it. Says as on_lost().
  std::vector<int> on_left(int server);

 private:
  bool replicated_ = false;
  std::vector<int> at_;
  std::vector<bool> alive_;
};

}  // namespace sumcast::ps

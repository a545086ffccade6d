// Holds a server's responses until its backup has done what led to them.
//
// Every push is repeated at the backup, in the order in which it was handled here, and the backup
// counts what it has handled, per application. A response leaves when the backup has handled all
// pushes that were handled here before it was given: what a worker is told, it can be told again.
// A lasting answer also for pulls: they may have seen any push before them.
//
// Pure. For one thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "ps/internal/message.h"

namespace sumcast::ps {

class LogGate {
 public:
  /// Without a backup nothing is held.
  void reset(bool has_backup) {
    has_backup_ = has_backup;
    apps_.clear();
  }
  bool has_backup() const { return has_backup_; }

  /// A push of this application is about to be handled, and sent to the backup.
  void log(int app) { ++apps_[app].logged; }
  /// True if a response may leave now; otherwise it is kept.
  bool pass(const ::ps::Message& response);
  /// The backup has handled `count` pushes of the application; `free` gets what may leave now.
  /// False if it cannot have.
  bool on_handled(int app, uint64_t count, std::vector<::ps::Message>& free);
  /// There is no backup any more. What was held.
  std::vector<::ps::Message> open();

 private:
  struct OfApp {
    uint64_t logged = 0, handled = 0;
    std::deque<std::pair<uint64_t, ::ps::Message>> held;  ///< Behind so many pushes.
  };

  bool has_backup_ = false;
  std::map<int, OfApp> apps_;
};

}  // namespace sumcast::ps

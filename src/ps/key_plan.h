// How the keys of a job find their servers: decided once, by the scheduler, for all of its
// processes, since two that cut keys differently would read what the other never wrote.
//
// Ranges are what a program can ask for; a job in which any program does (GetServerKeyRanges,
// KVWorker::set_slicer) has them. All others have their keys spread by hash, so that small ids do
// not crowd on the first server. SUMCAST_PS_PARTITION says otherwise for a job that does not ask.
//
// Pure. For one thread at a time.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/result.h"
#include "ps/internal/postoffice.h"

namespace sumcast::ps {

/// What one process knows when it joins.
struct KeyWishes {
  std::optional<::ps::Partition> set;  ///< SUMCAST_PS_PARTITION there.
  bool asks = false;                   ///< Its program uses a function that gives ranges.
};

class KeyPlan {
 public:
  /// @param who  names the process, in errors and log lines too.
  /// Errors: kMismatch, if another process has SUMCAST_PS_PARTITION set to something else.
  Result<void> add(const std::string& who, const KeyWishes& wishes);
  /// A process has gone before all had come.
  void remove(const std::string& who) { wishes_.erase(who); }

  /// For a job of so many servers. (One has all keys, in order.)
  ::ps::Partition decide(int num_servers) const;

  /// What whoever set SUMCAST_PS_PARTITION should know; empty if it is obeyed.
  std::string notice() const;

 private:
  using Wishes = std::map<std::string, KeyWishes>;  ///< By process.
  Wishes::const_iterator who_asks() const;
  Wishes::const_iterator who_set() const;

  Wishes wishes_;
};

}  // namespace sumcast::ps

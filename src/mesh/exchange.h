// A batch of messages that a caller waits for as one: what its Work handle refers to.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"

namespace sumcast::mesh {

/// A message to send. Memory is the caller's, until the exchange is done.
struct Sending {
  Rank to;
  const std::byte* data = nullptr;
  uint64_t bytes = 0;
  uint64_t tag = 0;
  uint32_t check = 0;
};

/// A message to receive, of exactly `bytes` bytes.
struct Receiving {
  std::optional<Rank> from;  ///< nullopt: whoever sends with this tag first.
  std::byte* data = nullptr;
  uint64_t bytes = 0;
  uint64_t tag = 0;
  uint32_t check = 0;
};

/// Shared by the caller's handle and the messenger, either of which may let go first. All but
/// `done` belongs to the messenger, under its mutex, until `done` is set; then it is constant.
struct Exchange {
  GroupId group;
  uint32_t left = 0;           ///< Messages that are not through.
  uint32_t committed = 0;      ///< Of those, the ones a peer may already know of.
  std::optional<Rank> source;  ///< Who sent the message that came last.
  Instant posted_at;
  Instant notice_at;                ///< When the log is to say that it still waits.
  bool asked = false;               ///< Peers were told what it waits for (kExpect).
  std::optional<Error> error;       ///< Why it failed.
  std::optional<Error> suspicion;   ///< Why it will fail when its deadline passes, if known.
  std::function<void()> on_done;    ///< Called once, without locks, from any thread.
  std::condition_variable changed;  ///< With the messenger's mutex.
  std::multimap<Instant, std::shared_ptr<Exchange>>::iterator deadline;
  std::atomic<bool> done{false};
};

}  // namespace sumcast::mesh

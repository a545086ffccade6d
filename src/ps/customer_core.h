// What of a customer outlives its Customer object: requests under way, messages to be handled.
//
// Two locks with two owners: `mutex` guards the tracker and is held for moments, from any thread;
// the rest belongs to the crew and its lock. Who holds `mutex` takes no other lock.
#pragma once

#include <atomic>
#include <mutex>
#include <vector>

#include "ps/internal/customer.h"
#include "ps/tracker.h"

struct ps::Customer::Core {
  Core(int app, int customer, const RecvHandle& recv_handle)
      : app_id(app), customer_id(customer), handle(recv_handle) {}

  /// Handles a message; counts it if it is a response. Not for two threads at once.
  void process(const Message& message);

  const int app_id;
  const int customer_id;
  const RecvHandle handle;

  std::mutex mutex;
  sumcast::ps::Tracker tracker;

  // The crew's.
  std::vector<Message> inbox;
  bool closed = false;   ///< New: its program still sets handlers. Messages wait.
  bool busy = false;     ///< A thread runs `process`.
  bool queued = false;   ///< In the crew's list of those that have something to do.
  bool retired = false;  ///< The Customer is going: nothing is handled any more.
};

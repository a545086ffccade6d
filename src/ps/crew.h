// Who looks after the connections, and who runs handlers: a few threads that take turns.
//
// At each moment at most one thread *leads*: it polls the connections and puts what has come into
// the customers' inboxes. Then it lets the lead go and runs handlers itself, so a message costs no
// change of threads. Whoever has the time leads next:
//
//   attendant   a thread of ours; there is one more of them than there are customers, so one is
//   free
//               even when a handler of each customer blocks
//   waiter      a thread of the program inside Wait. It takes the lead from a sleeping attendant,
//               so that the answer it waits for arrives in its own hands. It runs handlers of its
//               own customer only: those of others may need locks that the program holds
//
// An attendant takes a lead that nobody has had for kGrace: the leader's handler takes long, or the
// waiter has gone back to its own work. One attendant watches for that, as long as messages come.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/time.h"
#include "ps/internal/customer.h"

namespace sumcast::ps {

using CorePtr = std::shared_ptr<::ps::Customer::Core>;

/// A message and whom it is for.
struct Arrival {
  CorePtr to;
  ::ps::Message message;
};

class Crew {
 public:
  /// What the crew works on. `poll` is called by the leader only.
  class Ship {
   public:
    virtual ~Ship() = default;
    /// Looks after the connections once; waits up to `longest` if there is nothing to do.
    virtual void poll(Duration longest, std::vector<Arrival>& arrivals) = 0;
    /// Makes a poll that waits return. Any thread.
    virtual void wake() = 0;
    /// Around a run of handlers by one thread: what they send may leave together.
    virtual void begin_batch() = 0;
    virtual void end_batch() = 0;
  };

  explicit Crew(Ship& ship) : ship_(ship) {}

  void start(size_t attendants);
  void add_attendant();
  /// Ends the attendants; messages that nobody has handled are dropped. Not from a handler.
  void stop();

  /// Hands messages over that did not come through poll(). Any thread.
  void deliver(Arrival arrival);

  /// A closed customer's messages are handled from now on.
  void open(const CorePtr& core);

  /// Something that a waiter may wait for has changed; handled messages aside, of which those hear
  /// who wait with a customer of their own.
  void notify();

  /// Returns when `done()`, which is called under the crew's lock, or at the deadline; true if
  /// done.
  /// @param own  whose handlers this thread may run meanwhile. Null: it only waits for notify(),
  ///             and takes no lead, as is right for a wait that may last as long as the job: most
  ///             servers' main threads are in one, and are not to be woken for every message.
  bool wait(::ps::Customer::Core* own, const std::function<bool()>& done, Instant deadline);

  /// True inside a handler of this customer, on the thread that runs it.
  static bool is_running(const ::ps::Customer::Core* core);

  /// Drops its messages and returns when none of its handlers runs any more (but for the caller's).
  void retire(const CorePtr& core);

 private:
  using Lock = std::unique_lock<std::mutex>;

  void attend();
  bool may_lead(bool mine) const;
  void lead(Lock& lock, Duration longest);
  void rest(Lock& lock);
  void put(Arrival arrival);
  void make_ready(const CorePtr& core);
  void run(Lock& lock, const CorePtr& core) noexcept;
  CorePtr take_ready(const ::ps::Customer::Core* wanted);
  void leave_lead();
  void tell_waiters();

  Ship& ship_;
  std::mutex mutex_;
  std::condition_variable changed_;   ///< For waiters that may lead.
  std::condition_variable observed_;  ///< For those that only wait for notify().
  std::condition_variable rested_;    ///< For attendants.
  std::vector<std::thread> threads_;
  std::deque<CorePtr> ready_;      ///< Customers with messages that nobody runs.
  std::vector<Arrival> arrivals_;  ///< The leader's.
  bool stopping_ = false;
  bool led_ = false;
  bool led_by_waiter_ = false;
  bool displace_ = false;  ///< A waiter wants the lead of an attendant.
  Instant free_since_{};   ///< Nobody has led since.
  uint64_t activity_ = 0;  ///< Polls that brought something.
  int waiters_ = 0, sleepers_ = 0, resting_ = 0;
  bool watched_ = false;  ///< An attendant watches the lead.
  bool dozing_ = false;   ///< It sleeps, as nothing has come for a while.
};

}  // namespace sumcast::ps

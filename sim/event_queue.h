// The virtual clock: events in order of their time, and of their making where times are equal, so
// that a run depends on its configuration and seed alone.
//
// Four rules for actors: an actor acts only when it is called; it is given the time and has no
// other clock; it never calls the actor that called it; what it wants later, it schedules.
#pragma once

#include <cstdint>
#include <queue>
#include <vector>

#include "base/assert.h"
#include "base/time.h"

namespace sumcast::sim {

class Actor {
 public:
  virtual ~Actor() = default;
  /// @param what the number given to EventQueue::schedule.
  virtual void on_event(Instant now, uint64_t what) = 0;
};

class EventQueue {
 public:
  /// `actor` must outlive the event. `at` may be now, but not before.
  void schedule(Instant at, Actor& actor, uint64_t what) {
    SUMCAST_ASSERT(at >= now_);
    events_.push(Event{at, made_++, &actor, what});
  }
  bool empty() const { return events_.empty(); }
  Instant now() const { return now_; }
  /// The time of the event that is next. Precondition: !empty().
  Instant next_at() const { return events_.top().at; }
  /// Advances the clock to the next event and lets it happen. Precondition: !empty().
  void run_one() {
    const Event event = events_.top();
    events_.pop();
    now_ = event.at;
    event.actor->on_event(event.at, event.what);
  }

 private:
  struct Event {
    Instant at;
    uint64_t order;
    Actor* actor;
    uint64_t what;
    bool operator>(const Event& other) const {
      return at != other.at ? at > other.at : order > other.order;
    }
  };
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  Instant now_{1};  // Zero means "unset".
  uint64_t made_ = 0;
};

}  // namespace sumcast::sim

// What may go wrong on a link, as data, and the generator that decides each datagram's fate.
#pragma once

#include <cstdint>
#include <vector>

#include "base/prng.h"
#include "base/time.h"

namespace sumcast::sim {

struct FaultPlan {
  struct Outage {
    Instant from, until;  ///< Everything sent in [from, until) is lost.
  };
  double loss = 0;         ///< Share of datagrams lost, independently.
  double duplication = 0;  ///< Share that arrives twice.
  double reordering = 0;   ///< Share that is held back by up to `held_max`.
  Duration held_max{};
  Duration jitter_max{};    ///< Each datagram is late by up to this (and so may be overtaken).
  double burst_begin = 0;   ///< Chance, per datagram, that a burst of losses begins (Gilbert).
  double burst_end = 0.25;  ///< Chance, per datagram in a burst, that it was the last one lost.
  double other_life = 0;    ///< Share followed by a datagram of another incarnation of the job.
  std::vector<Outage> outages;
};

struct Fate {
  bool lost = false;
  bool twice = false;
  bool other_life = false;
  Duration late{};       ///< Of the datagram.
  Duration twin_late{};  ///< Of its second copy.
};

class FaultInjector {
 public:
  FaultInjector(const FaultPlan& plan, uint64_t seed) : plan_(plan), prng_(seed) {}
  Fate next(Instant now);
  /// Can datagrams be late at all? If not, a link may keep a batch together.
  bool delays() const { return plan_.reordering > 0 || plan_.jitter_max.count() > 0; }

 private:
  Duration up_to(Duration most);

  FaultPlan plan_;
  Prng prng_;
  bool in_burst_ = false;
};

}  // namespace sumcast::sim

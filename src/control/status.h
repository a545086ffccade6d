// A picture of the coordinator at one moment, for status pages and tests. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "control/messages.h"

namespace sumcast::control {

/// Where a rank is in its life.
enum class RankState : uint8_t {
  kAbsent,   ///< Has not joined.
  kWaiting,  ///< Has joined; others are missing.
  kLive,
  kLeft,  ///< Said goodbye.
  kDead,  ///< Connection lost or heartbeats ceased without a goodbye.
};
/// "absent" "waiting" "live" "left" "dead".
std::string_view name_of(RankState state);

struct RankStatus {
  RankState state = RankState::kAbsent;
  Member member;
  Duration silent{0};                 ///< Since it was last heard.
  std::string alone;                  ///< Why it shares memory with nobody; empty if it may.
  Moves moves;                        ///< As it last reported.
  std::vector<GroupActivity> groups;  ///< As it last reported, ages brought up to now.
};

struct GroupStatus {
  GroupId group;
  std::string key;
  std::vector<Rank> ranks;
  uint32_t slot_base = 0;
  uint32_t slot_count = 0;
  uint32_t payload_bytes = 0;
  std::vector<uint32_t> hosts;  ///< As in GroupPlan.
  std::optional<Error> aborted;
};

struct JobStatus {
  std::string name;
  bool running = false;  ///< False while ranks are still missing.
  Incarnation incarnation;
  uint32_t slots = 0;
  uint32_t slots_in_use = 0;
  std::vector<RankStatus> ranks;
  std::vector<GroupStatus> groups;
  std::vector<std::string> groups_pending;  ///< Keys that wait for members.
};

/// Events since the start.
struct CoordinatorCounters {
  uint64_t jobs_started = 0;
  uint64_t jobs_ended = 0;
  uint64_t joins_refused = 0;
  uint64_t groups_opened = 0;
  uint64_t groups_refused = 0;
  uint64_t aborts = 0;  ///< Groups aborted.
  uint64_t deaths = 0;
  uint64_t violations = 0;  ///< Messages that an honest client would not send.
};

struct CoordinatorStatus {
  std::vector<JobStatus> jobs;  ///< By name.
  CoordinatorCounters counters;
};

}  // namespace sumcast::control

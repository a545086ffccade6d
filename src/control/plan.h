// What a coordinator decides and others carry out: the plans of jobs and groups, and who hears
// them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "control/messages.h"

namespace sumcast::control {

/// A job whose ranks have all joined.
struct JobPlan {
  Incarnation incarnation;
  Epoch epoch;
  std::string name;
  std::vector<Member> members;  ///< Index is rank; its size is the world.
  uint32_t slots = 0;           ///< The job's pool: its groups own ranges within [0, slots).
};

/// Places of a group whose hosts share memory: hosts times the ranks of the fullest one. A piece of
/// 256 KiB between hosts has room for one lane, eight bytes at most, of each.
inline constexpr uint64_t kPlacesMax = 32768;

/// A group and what it owns. `ranks` are ranks of the job in the group's order: a member's place in
/// it is its rank within the group.
struct GroupPlan {
  Incarnation incarnation;
  GroupId group;  ///< 0 for the key "world".
  std::string key;
  std::vector<Rank> ranks;
  SlotIndex slot_base;
  uint32_t slot_count = 0;     ///< At least 1.
  uint32_t payload_bytes = 0;  ///< The least that a member offered.
  /// The host of each rank in `ranks`: those that share memory have the same number. Hosts are
  /// numbered from 0 in order of their first rank. The order of additions follows from it.
  std::vector<uint32_t> hosts{};
};

/// Hears of jobs and groups before their members do, so that shards are ready when the first
/// datagram comes. Calls come from one thread, must not block, and must not call back.
class JobObserver {
 public:
  virtual ~JobObserver() = default;
  virtual void job_started(const JobPlan& plan) = 0;
  virtual void group_opened(const GroupPlan& plan) = 0;
  /// All members closed it, left or died; its id and slots are free. Comes for every group that
  /// was opened, before job_ended.
  virtual void group_closed(Incarnation incarnation, GroupId group) = 0;
  virtual void job_ended(Incarnation incarnation) = 0;
};

}  // namespace sumcast::control

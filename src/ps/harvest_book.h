// A server's memory of harvests: which pushes it has in a sum, so that none counts twice.
//
// A harvest is applied by one call of the handler, and its parts are recorded before that call in
// the same step, so each part is either in a recorded harvest or was never applied. When an
// aggregator dies, workers send again what they do not know to be committed; what a recorded
// harvest contains is answered, not applied. From the first such question on nothing more is taken
// from that aggregator: what was still on its way is sent again by the workers.
//
// Pure. For one thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "ps/merge_shard.h"

namespace sumcast::ps {

class HarvestBook {
 public:
  /// Records a harvest. Its number for the handler, below zero; nothing if it is not to be applied.
  /// @param decided  Another has decided that it counts: a backup, by its server's log.
  std::optional<int> on_harvest(int aggregator, int number, const std::vector<PartName>& parts,
                                bool decided = false);

  struct Applied {
    int aggregator = 0, number = 0;
    std::vector<PartName> asked;  ///< Workers that have asked meanwhile.
  };
  /// The handler has answered.
  std::optional<Applied> on_response(int handled_as);

  enum class Verdict : uint8_t {
    kApply = 0,    ///< No harvest has it.
    kApplied = 1,  ///< A harvest has it, and was applied.
    kWait = 2,     ///< A harvest has it, and is being applied; on_response() tells.
  };
  /// @param asked_as  what on_response() names then; most often the part itself.
  Verdict on_replay(int aggregator, const PartName& part, const PartName& asked_as);
  Verdict on_replay(int aggregator, const PartName& part) {
    return on_replay(aggregator, part, part);
  }
  /// Our number of a harvest that is being applied.
  std::optional<int> find(int aggregator, int number) const;
  /// The worker knows that these are committed.
  void on_settled(int aggregator, int worker, const std::vector<RequestId>& ids);
  void on_worker_lost(int worker);
  void clear() { *this = HarvestBook(); }
  size_t size() const { return parts_.size(); }

 private:
  using Name = std::tuple<int, int, RequestId>;  ///< Worker, aggregator, request.
  struct Entry {
    int aggregator = 0, number = 0;
    std::vector<PartName> asked;
  };

  std::map<int, Entry> handling_;           ///< By our number.
  std::map<Name, int> parts_;               ///< Our number, or 0 when it was applied.
  std::map<int, std::vector<Name>> names_;  ///< Of those that are being applied.
  std::set<int> fenced_;
  int next_ = -1;
};

}  // namespace sumcast::ps

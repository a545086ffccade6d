#include "ps/harvest_book.h"

#include <limits>
#include <utility>

namespace sumcast::ps {

std::optional<int> HarvestBook::on_harvest(int aggregator, int number,
                                           const std::vector<PartName>& parts, bool decided) {
  if (!decided && fenced_.count(aggregator) != 0) return std::nullopt;
  const int ours = next_;
  next_ = next_ == std::numeric_limits<int>::min() ? -1 : next_ - 1;
  handling_[ours] = {aggregator, number, {}};
  for (const PartName& part : parts) {
    const Name name(part.worker, aggregator, part.id);
    parts_[name] = ours;
    names_[ours].push_back(name);
  }
  return ours;
}

std::optional<HarvestBook::Applied> HarvestBook::on_response(int handled_as) {
  const auto it = handling_.find(handled_as);
  if (it == handling_.end()) return std::nullopt;
  Applied applied{it->second.aggregator, it->second.number, std::move(it->second.asked)};
  for (const Name& name : names_[handled_as]) {
    if (const auto part = parts_.find(name); part != parts_.end()) part->second = 0;
  }
  names_.erase(handled_as);
  handling_.erase(it);
  return applied;
}

std::optional<int> HarvestBook::find(int aggregator, int number) const {
  for (const auto& [ours, entry] : handling_) {  // An aggregator has few under way.
    if (entry.aggregator == aggregator && entry.number == number) return ours;
  }
  return std::nullopt;
}

HarvestBook::Verdict HarvestBook::on_replay(int aggregator, const PartName& part,
                                            const PartName& asked_as) {
  fenced_.insert(aggregator);
  const auto it = parts_.find(Name(part.worker, aggregator, part.id));
  if (it == parts_.end()) return Verdict::kApply;
  if (it->second == 0) {
    parts_.erase(it);
    return Verdict::kApplied;
  }
  handling_[it->second].asked.push_back(asked_as);
  return Verdict::kWait;
}

void HarvestBook::on_settled(int aggregator, int worker, const std::vector<RequestId>& ids) {
  for (const RequestId& id : ids) parts_.erase(Name(worker, aggregator, id));
}

void HarvestBook::on_worker_lost(int worker) {
  std::erase_if(parts_, [&](const auto& part) { return std::get<0>(part.first) == worker; });
}

}  // namespace sumcast::ps

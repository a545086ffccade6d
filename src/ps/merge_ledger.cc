#include "ps/merge_ledger.h"

namespace sumcast::ps {

void MergeLedger::open(const ::ps::Meta& meta, bool straight,
                       const std::map<int, ::ps::Message>& parts) {
  Push& push = pushes_[{meta.recver, id_of(meta)}];
  push.straight = straight ? 1 : 0;
  push.parts = parts;
}

MergeLedger::Verdict MergeLedger::settle(std::map<Name, Push>::iterator it) {
  if (it->second.straight > 0 || !it->second.parts.empty()) return Verdict::kPending;
  pushes_.erase(it);
  return Verdict::kDone;
}

MergeLedger::Verdict MergeLedger::on_answer(int server, const RequestId& id) {
  const auto it = pushes_.find({server, id});
  if (it == pushes_.end()) return Verdict::kUnknown;
  if (it->second.straight > 0) --it->second.straight;
  return settle(it);
}

MergeLedger::Verdict MergeLedger::on_committed(int aggregator, int server, const RequestId& id) {
  const auto it = pushes_.find({server, id});
  if (it == pushes_.end()) return Verdict::kUnknown;
  if (it->second.parts.erase(aggregator) == 0) return Verdict::kUnknown;
  return settle(it);
}

std::vector<::ps::Message> MergeLedger::take_parts(int aggregator) {
  std::vector<::ps::Message> taken;
  for (auto& [name, push] : pushes_) {
    const auto part = push.parts.find(aggregator);
    if (part == push.parts.end()) continue;
    taken.push_back(std::move(part->second));
    taken.back().meta.recver = name.first;
    push.parts.erase(part);
    ++push.straight;
  }
  return taken;
}

void MergeLedger::on_server_lost(int server) {
  std::erase_if(pushes_, [&](const auto& push) { return push.first.first == server; });
}

}  // namespace sumcast::ps

#include "mesh/match_board.h"

#include <algorithm>

namespace sumcast::mesh {
namespace {

bool fits(const Receiving& what, Rank from, uint64_t tag) {
  return what.tag == tag && (!what.from || *what.from == from);
}

}  // namespace

ReceivePtr MatchBoard::take_receive(Rank from, uint64_t tag) {
  const auto found = std::ranges::find_if(
      receives_, [&](const ReceivePtr& receive) { return fits(receive->what, from, tag); });
  if (found == receives_.end()) return nullptr;
  ReceivePtr receive = std::move(*found);
  receives_.erase(found);
  return receive;
}

ArrivalPtr MatchBoard::take_arrival(const Receiving& what) {
  const auto found = std::ranges::find_if(arrivals_, [&](const ArrivalPtr& arrival) {
    return fits(what, arrival->from, arrival->tag);
  });
  if (found == arrivals_.end()) return nullptr;
  ArrivalPtr arrival = std::move(*found);
  arrivals_.erase(found);
  return arrival;
}

void MatchBoard::withdraw(const Exchange& owner) {
  std::erase_if(receives_,
                [&](const ReceivePtr& receive) { return receive->owner.get() == &owner; });
}

std::vector<std::shared_ptr<Exchange>> MatchBoard::waiting_for(Rank from) const {
  std::vector<std::shared_ptr<Exchange>> owners;
  for (const ReceivePtr& receive : receives_) {
    if (receive->what.from == from) owners.push_back(receive->owner);
  }
  return owners;
}

void MatchBoard::clear() {
  receives_.clear();
  arrivals_.clear();
}

}  // namespace sumcast::mesh

#include "sim/small/explorer.h"

#include <algorithm>
#include <utility>

namespace sumcast::sim {
namespace {

/// A set of 64-bit numbers with linear probing; doubles when it is half full.
class VisitedSet {
 public:
  VisitedSet() : entries_(1u << 16) {}
  /// @return false if it was there before.
  bool insert(uint64_t number) {
    number |= uint64_t{number == 0};  // 0 marks what is free.
    if (count_ * 2 >= entries_.size()) grow();
    uint64_t& entry = find(number);
    if (entry == number) return false;
    entry = number;
    ++count_;
    return true;
  }
  uint64_t size() const { return count_; }

 private:
  uint64_t& find(uint64_t number) {
    size_t at = number & (entries_.size() - 1);
    while (entries_[at] != 0 && entries_[at] != number) at = (at + 1) & (entries_.size() - 1);
    return entries_[at];
  }
  void grow() {
    const std::vector<uint64_t> old =
        std::exchange(entries_, std::vector<uint64_t>(entries_.size() * 2));
    for (const uint64_t number : old) {
      if (number != 0) find(number) = number;
    }
  }
  std::vector<uint64_t> entries_;
  uint64_t count_ = 0;
};

class Explorer {
 public:
  Explorer(const SmallWorldConfig& config, uint64_t states_max)
      : world_(config), states_max_(states_max) {}

  Exploration run() {
    Exploration result;
    result.exhausted = enter();
    result.states = visited_.size();
    result.violation = std::move(violation_);
    std::ranges::reverse(path_);
    result.path = std::move(path_);
    return result;
  }

 private:
  /// Explores from the state that the world is in. @return false to stop everything.
  bool enter() {
    if (!visited_.insert(world_.fingerprint())) return true;
    if (visited_.size() > states_max_) return false;
    const SmallWorld::State here = world_.save();
    if (!world_.finishes()) {
      violation_ = world_.violation().empty() ? "it never finishes" : world_.violation();
      path_.push_back("(then no more faults)");
      return false;
    }
    world_.restore(here);
    for (const SmallWorld::Step& step : world_.steps()) {
      world_.take(step);
      bool go_on = world_.violation().empty();
      if (!go_on) violation_ = world_.violation();
      go_on = go_on && enter();
      world_.restore(here);
      if (!go_on) {
        path_.push_back(world_.describe(step));
        return false;
      }
    }
    return true;
  }

  SmallWorld world_;
  VisitedSet visited_;
  uint64_t states_max_;
  std::string violation_;
  std::vector<std::string> path_;  // From the end to the start.
};

}  // namespace

Exploration explore(const SmallWorldConfig& config, uint64_t states_max) {
  return Explorer(config, states_max).run();
}

}  // namespace sumcast::sim

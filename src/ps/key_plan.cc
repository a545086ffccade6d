#include "ps/key_plan.h"

#include <fmt/format.h>

#include <algorithm>

namespace sumcast::ps {
namespace {

const char* name_of(::ps::Partition partition) {
  return partition == ::ps::Partition::kHash ? "hash" : "ranges";
}

}  // namespace

KeyPlan::Wishes::const_iterator KeyPlan::who_asks() const {
  return std::find_if(wishes_.begin(), wishes_.end(),
                      [](const auto& entry) { return entry.second.asks; });
}

KeyPlan::Wishes::const_iterator KeyPlan::who_set() const {
  return std::find_if(wishes_.begin(), wishes_.end(),
                      [](const auto& entry) { return entry.second.set.has_value(); });
}

Result<void> KeyPlan::add(const std::string& who, const KeyWishes& wishes) {
  const auto other = who_set();
  if (wishes.set && other != wishes_.end() && *wishes.set != *other->second.set) {
    return fail(
        ErrorCode::kMismatch,
        fmt::format("SUMCAST_PS_PARTITION is {} there, but {} at {}; set it to the same for "
                    "all processes, or for none",
                    name_of(*wishes.set), name_of(*other->second.set), other->first));
  }
  wishes_[who] = wishes;
  return {};
}

::ps::Partition KeyPlan::decide(int num_servers) const {
  if (num_servers <= 1 || who_asks() != wishes_.end()) return ::ps::Partition::kRanges;
  const auto who = who_set();
  return who != wishes_.end() ? *who->second.set : ::ps::Partition::kHash;
}

std::string KeyPlan::notice() const {
  const auto asks = who_asks(), set = who_set();
  if (asks == wishes_.end() || set == wishes_.end()) return "";
  if (*set->second.set == ::ps::Partition::kRanges) return "";
  return fmt::format(
      "SUMCAST_PS_PARTITION=hash at {} is without effect: the program of {} uses "
      "GetServerKeyRanges or set_slicer, so keys go by ranges",
      set->first, asks->first);
}

}  // namespace sumcast::ps

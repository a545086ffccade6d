#include "embedding/hot_follower.h"

#include <algorithm>

namespace sumcast::embedding {
namespace {

/// Of the larger set, that must be new or gone for the change to be worth its traffic.
constexpr double kChangeMin = 0.1;

/// Keys of `b` that `a` has too.
size_t in_common(std::vector<uint64_t> a, std::vector<uint64_t> b) {
  std::ranges::sort(a);
  std::ranges::sort(b);
  std::vector<uint64_t> both;
  std::ranges::set_intersection(a, b, std::back_inserter(both));
  return both.size();
}

}  // namespace

HotFollower::HotFollower(const sparse::LinkModel& model, uint32_t hot_max, uint32_t period,
                         bool proposes)
    : model_(model), hot_max_(hot_max), period_(period), proposes_(proposes) {}

bool HotFollower::on_round(std::span<const uint64_t> keys) {
  if (hot_max_ == 0) return false;
  if (proposes_) batches_.add_row(keys);
  return ++rounds_ % period_ == 0;
}

/// Starts the next period.
std::optional<std::vector<uint64_t>> HotFollower::propose() {
  // A row of the sample is a batch already.
  std::vector<uint64_t> keys = sparse::choose_hot_keys(model_, batches_, 1, hot_max_);
  batches_ = hotset::Corpus();
  const size_t larger = std::max(keys.size(), current_.size());
  const size_t changed = larger - in_common(keys, current_);
  if (static_cast<double>(changed) <= kChangeMin * static_cast<double>(larger)) return std::nullopt;
  return keys;
}

Result<std::optional<std::vector<uint64_t>>> HotFollower::decide(sparse::Worker& rows) {
  constexpr uint64_t kStay = UINT64_MAX;
  std::optional<std::vector<uint64_t>> keys;
  if (proposes_) keys = propose();
  uint64_t size = keys ? keys->size() : kStay;
  if (auto told = rows.broadcast(&size, 1, ElementType::kI64); !told) return fail(told.error());
  if (size == kStay) return std::nullopt;
  if (size > hot_max_) {
    return fail(ErrorCode::kInternal, "table: more hot keys were proposed than may be");
  }
  if (!keys) keys.emplace(size);
  auto told = rows.broadcast(keys->data(), keys->size(), ElementType::kI64);
  if (!told) return fail(told.error());
  set_current(*keys);
  return keys;
}

}  // namespace sumcast::embedding

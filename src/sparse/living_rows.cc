#include "sparse/living_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace sumcast::sparse {

using table::History;
using table::RowTable;

LivingRows::LivingRows(const table::TableShape& shape, uint32_t candidates_max, bool is_saved,
                       RowTable& rows)
    : shape_(shape), candidates_max_(candidates_max), rows_(rows), is_saved_(is_saved) {}

bool LivingRows::is_held(uint64_t key) const {
  return candidates_.contains(key) || rows_.find(key) != RowTable::kNone;
}

/// Behind the change: what is as new and in no checkpoint is forgotten whole.
void LivingRows::note_change(uint64_t key) {
  if (!is_saved_) return;
  const auto [at, is_new] = changes_.try_emplace(key);
  at->second.number = checkpoint_ + 1;
  if (!at->second.is_saved && !is_held(key)) changes_.erase(at);
}

void LivingRows::note_checkpoint(uint32_t number) {
  checkpoint_ = number;
  for (auto& [key, change] : changes_) change.is_saved = true;
}

History LivingRows::history_of(uint32_t row) const { return shape_.history(rows_.record(row)); }

void LivingRows::touch(uint32_t row, uint32_t now) {
  shape_.set_history(rows_.record(row), shape_.life.after_update(history_of(row), now));
}

Result<void> LivingRows::update(std::vector<uint64_t>& keys, uint32_t now) {
  std::ranges::sort(keys);
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  // Rows that this step touches stay, so all of them are known before any goes.
  std::vector<uint64_t> others;
  for (const uint64_t key : keys) {
    const uint32_t row = rows_.find(key);
    row == RowTable::kNone ? others.push_back(key) : touch(row, now);
  }
  for (const uint64_t key : others) {
    if (!count_update(key, now)) continue;
    if (auto room = make_room(keys, now); !room) return room;
    candidates_.erase(key);  // Not before: told again, the step is to fail again.
    make_row(key, {now, shape_.life.admit_after + 1});
  }
  for (const uint64_t key : keys) note_change(key);
  return {};
}

/// @return true: the key has had as many as it takes.
bool LivingRows::count_update(uint64_t key, uint32_t now) {
  const auto found = candidates_.find(key);
  const History before = found == candidates_.end() ? History() : found->second;
  const History after = shape_.life.after_update(before, now);
  if (!shape_.life.has_row(after)) {
    put_candidate(key, after);
    return false;
  }
  return true;
}

void LivingRows::put_candidate(uint64_t key, History history) {
  const auto [at, is_new] = candidates_.insert_or_assign(key, history);
  if (!is_new) return;
  candidates_by_age_.add(key, history.last);
  if (candidates_.size() > candidates_max_) forget_oldest_candidate();
}

void LivingRows::forget_oldest_candidate() {
  if (const auto key = oldest_candidate(UINT32_MAX)) forget(*key);
}

void LivingRows::make_row(uint64_t key, History history) {
  const uint32_t row = rows_.find_or_make(key);
  shape_.set_history(rows_.record(row), history);
  if (shape_.life.evict_after != 0) by_age_.add(key, history.last);
}

std::optional<uint64_t> LivingRows::oldest_row(uint32_t limit) {
  return by_age_.take_before(limit, [this](uint64_t key) -> std::optional<uint32_t> {
    const uint32_t row = rows_.find(key);
    if (row == RowTable::kNone) return std::nullopt;
    return history_of(row).last;
  });
}

std::optional<uint64_t> LivingRows::oldest_candidate(uint32_t limit) {
  return candidates_by_age_.take_before(limit, [this](uint64_t key) -> std::optional<uint32_t> {
    const auto found = candidates_.find(key);
    if (found == candidates_.end()) return std::nullopt;
    return found->second.last;
  });
}

/// For one more row in step `now`. @param keys  what this step touches, sorted: they stay. (Others
/// of the same time, which slower workers of an asynchronous job touched before, may go.)
Result<void> LivingRows::make_room(std::span<const uint64_t> keys, uint32_t now) {
  if (rows_.size() < shape_.rows_max) return {};
  std::optional<uint64_t> oldest;
  std::vector<uint64_t> kept;
  while (shape_.life.evict_after != 0 && (oldest = oldest_row(now + 1)) &&
         std::ranges::binary_search(keys, *oldest)) {
    kept.push_back(*oldest);
  }
  for (const uint64_t key : kept) by_age_.add(key, now);
  if (!oldest) {
    return fail(ErrorCode::kUnavailable,
                fmt::format("the table is full: {} rows in this segment, and {}", rows_.size(),
                            shape_.life.evict_after == 0
                                ? "none may go (--evict-after)"
                                : "a single step needs more: allow more (--max-rows)"));
  }
  forget(*oldest);
  return {};
}

Result<void> LivingRows::trim() {
  while (rows_.size() > shape_.rows_max) {
    const auto oldest = shape_.life.evict_after == 0 ? std::nullopt : oldest_row(UINT32_MAX);
    if (!oldest) {
      return fail(ErrorCode::kUnavailable,
                  fmt::format("the table is full: {} rows in this segment, of {} allowed",
                              rows_.size(), shape_.rows_max));
    }
    forget(*oldest);
  }
  return {};
}

/// The key is as new.
void LivingRows::forget(uint64_t key) {
  rows_.erase(key);
  candidates_.erase(key);
  note_change(key);
}

void LivingRows::sweep(uint32_t now) {
  const uint32_t after = shape_.life.evict_after;
  if (after == 0 || now < after) return;
  const uint32_t limit = now - after + 1;
  while (const auto key = oldest_row(limit)) forget(*key);
  while (const auto key = oldest_candidate(limit)) forget(*key);
}

void LivingRows::read(uint64_t key, float* record) const {
  const uint32_t row = rows_.find(key);
  if (row != RowTable::kNone) {
    std::memcpy(record, rows_.record(row), shape_.record_lanes() * sizeof(float));
    return;
  }
  shape_.make_record(key, record);
  const auto candidate = candidates_.find(key);
  if (candidate != candidates_.end()) shape_.set_history(record, candidate->second);
}

void LivingRows::write(uint64_t key, const float* record, uint32_t now) {
  const History history = shape_.history(record);
  if (history.count == 0 || shape_.life.is_gone(history, now)) return forget(key);
  if (!shape_.life.has_row(history)) {
    rows_.erase(key);
    put_candidate(key, history);
    return note_change(key);
  }
  candidates_.erase(key);
  uint32_t row = rows_.find(key);
  if (row == RowTable::kNone) {
    make_row(key, history);
    row = rows_.find(key);
  } else if (history.last < history_of(row).last) {
    by_age_.add(key, history.last);  // Older than its entry says.
  }
  std::memcpy(rows_.record(row), record, shape_.record_lanes() * sizeof(float));
  note_change(key);
}

void LivingRows::forget_before(uint32_t standing) {
  std::erase_if(changes_, [&](const auto& one) {
    return one.second.number <= standing && !is_held(one.first);
  });
}

/// A part with all there is says which keys are as new by leaving them out.
std::vector<uint64_t> LivingRows::changed_keys(uint32_t base) const {
  std::vector<uint64_t> keys;
  for (const auto& [key, change] : changes_) {
    if (change.number > base && (base != 0 || is_held(key))) keys.push_back(key);
  }
  std::ranges::sort(keys);
  return keys;
}

size_t LivingRows::count_changed(uint32_t base) const { return changed_keys(base).size(); }

void LivingRows::each_changed(
    uint32_t base, const std::function<void(uint64_t key, const float* record)>& take) const {
  std::vector<float> record(shape_.record_lanes());
  for (const uint64_t key : changed_keys(base)) {
    read(key, record.data());
    take(key, record.data());
  }
}

}  // namespace sumcast::sparse

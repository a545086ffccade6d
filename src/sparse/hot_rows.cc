#include "sparse/hot_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

namespace sumcast::sparse {

Result<HotRows> HotRows::create(const table::TableShape& shape, std::span<const uint64_t> keys) {
  HotRows hot(shape);
  for (const uint64_t key : keys) {
    const size_t before = hot.table_.size();
    if (hot.table_.find_or_make(key) != before) {
      return fail(ErrorCode::kInvalidArgument, fmt::format("hot keys: {} stands there twice", key));
    }
  }
  const size_t words = (keys.size() + 63) / 64;
  hot.moved_.resize(words, 0);
  hot.flushing_.resize(words, 0);
  hot.batch_of_.resize(keys.size(), 0);
  return hot;
}

void HotRows::gather(std::span<const uint32_t> slots, std::span<const float* const> gradients,
                     Addends& out) {
  const size_t width = table_.shape().width;
  order_.resize(slots.size());
  std::iota(order_.begin(), order_.end(), 0u);
  std::ranges::sort(order_, {}, [&](uint32_t i) { return slots[i]; });
  out.touched.resize(slots.size());
  out.rows.resize(slots.size() * width);
  for (size_t i = 0; i < order_.size(); ++i) {
    out.touched[i] = slots[order_[i]];
    std::memcpy(out.rows.data() + i * width, gradients[order_[i]], width * sizeof(float));
  }
}

void HotRows::prepare(Sums& sums) const {
  sums.rows.resize(table_.size() * table_.shape().width);
  sums.present.assign(moved_.size(), 0);
}

void HotRows::begin() {
  if (table_.shape().life.evict_after == 0) return;
  for (uint32_t slot = 0; slot < slots(); ++slot) {
    const table::History history = table_.shape().history(record(slot));
    if (history.count != 0) by_age_.add(key(slot), history.last);
  }
}

size_t HotRows::apply(const Sums& sums, uint64_t now, float rate) {
  table_.set_rate(rate);
  const size_t width = table_.shape().width;
  const bool lives = table_.shape().life.is_on();
  const auto step = static_cast<uint32_t>(std::min<uint64_t>(now, UINT32_MAX - 1));
  size_t rows = 0;
  for (size_t word = 0; word < sums.present.size(); ++word) {
    for (uint64_t bits = sums.present[word]; bits != 0; bits &= bits - 1) {
      const auto slot =
          static_cast<uint32_t>(word * 64 + static_cast<size_t>(std::countr_zero(bits)));
      if (lives && !is_admitted(slot, step)) continue;
      table_.step(slot, sums.rows.data() + slot * width);
      ++rows;
    }
    moved_[word] |= sums.present[word];
  }
  if (lives) evict(step);
  return rows;
}

/// After this update.
bool HotRows::is_admitted(uint32_t slot, uint32_t now) {
  const table::TableShape& shape = table_.shape();
  const table::History before = shape.history(record(slot));
  const table::History after = shape.life.after_update(before, now);
  shape.set_history(record(slot), after);
  if (before.count == 0 && shape.life.evict_after != 0) by_age_.add(key(slot), now);
  return shape.life.has_row(after);
}

void HotRows::evict(uint32_t now) {
  const table::TableShape& shape = table_.shape();
  const uint32_t after = shape.life.evict_after;
  if (after == 0 || now < after) return;
  const auto time_of = [&](uint64_t key) -> std::optional<uint32_t> {
    const table::History history = shape.history(record(slot_of(key)));
    if (history.count == 0) return std::nullopt;
    return history.last;
  };
  while (const auto key = by_age_.take_before(now - after + 1, time_of)) {
    const uint32_t slot = slot_of(*key);
    shape.make_record(*key, record(slot));
    note_moved(slot);
  }
}

std::vector<uint32_t> HotRows::begin_flush(uint32_t worker, uint32_t workers) {
  std::vector<uint32_t> slots;
  for (size_t word = 0; word < moved_.size(); ++word) {
    flushing_[word] |= moved_[word];
    for (uint64_t bits = flushing_[word]; bits != 0; bits &= bits - 1) {
      const auto slot =
          static_cast<uint32_t>(word * 64 + static_cast<size_t>(std::countr_zero(bits)));
      if (slot % workers == worker) slots.push_back(slot);
    }
    moved_[word] = 0;
  }
  return slots;
}

}  // namespace sumcast::sparse

#include "table/row_table.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "base/prng.h"

namespace sumcast::table {
namespace {

constexpr uint32_t kFirstIndexBits = 10;

}  // namespace

Result<void> TableShape::validate() const {
  if (width == 0 || width > UINT16_MAX) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("table: rows of {} lanes; 1 to {} are possible", width, UINT16_MAX));
  }
  if (!(init_scale >= 0.0f) || !std::isfinite(init_scale)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("table: init scale is {}; it must be 0 or more", init_scale));
  }
  if (rows_max == 0 || rows_max >= UINT32_MAX) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("table: room for {} rows; 1 to {} are possible", rows_max, UINT32_MAX - 1));
  }
  if (life.admit_after == UINT32_MAX) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("table: rows after {} updates; at most {} are possible",
                            life.admit_after, UINT32_MAX - 1));
  }
  return optimizer.validate();
}

void TableShape::make_record(uint64_t key, float* record) const {
  Prng random(mix_key(key) ^ seed);
  for (uint32_t i = 0; i < width; ++i) {
    // 24 bits: exact in f32, so that the product is rounded once, alike everywhere.
    const auto unit = static_cast<float>(random.next_u64() >> 40) * 0x1.0p-23f - 1.0f;
    record[i] = init_scale == 0.0f ? 0.0f : unit * init_scale;
  }
  optimizer.reset(record + width, width);
  if (life.is_on()) set_history(record, {});
}

History TableShape::history(const float* record) const {
  History history;
  std::memcpy(static_cast<void*>(&history), record + width + optimizer.state_lanes(width),
              sizeof history);
  return history;
}

void TableShape::set_history(float* record, History history) const {
  std::memcpy(record + width + optimizer.state_lanes(width), &history, sizeof history);
}

RowTable::RowTable(const TableShape& shape)
    : shape_(shape),
      record_lanes_(shape.record_lanes()),
      index_(size_t{1} << kFirstIndexBits, 0),
      index_shift_(64 - kFirstIndexBits) {
  SUMCAST_ASSERT(shape.width >= 1);
}

/// Where a key is looked for first.
size_t RowTable::home_of(uint64_t key) const {
  // All bits of the mix count: a segment's keys have some of them in common (sparse/options.h).
  return static_cast<size_t>((mix_key(key) * 0x9E3779B97F4A7C15u) >> index_shift_);
}

/// Where the key's row number stands in the index, or where it would.
size_t RowTable::place_of(uint64_t key) const {
  const size_t mask = index_.size() - 1;
  size_t place = home_of(key);
  while (index_[place] != 0 && keys_[index_[place] - 1] != key) place = (place + 1) & mask;
  return place;
}

uint32_t RowTable::find(uint64_t key) const {
  const uint32_t found = index_[place_of(key)];
  return found == 0 ? kNone : found - 1;
}

uint32_t RowTable::find_or_make(uint64_t key) {
  size_t place = place_of(key);
  if (index_[place] != 0) return index_[place] - 1;
  if (size() >= shape_.rows_max) return kNone;
  if ((size() + 1) * 2 > index_.size()) {
    grow();
    place = place_of(key);
  }
  const uint32_t row = new_number(key);
  index_[place] = row + 1;
  shape_.make_record(key, record(row));
  return row;
}

uint32_t RowTable::new_number(uint64_t key) {
  if (!free_.empty()) {
    const uint32_t row = free_.back();
    free_.pop_back();
    keys_[row] = key;
    return row;
  }
  const auto row = static_cast<uint32_t>(keys_.size());
  if (row % kPageRows == 0) {
    pages_.push_back(std::make_unique<float[]>(size_t{kPageRows} * record_lanes_));
  }
  keys_.push_back(key);
  return row;
}

void RowTable::grow() {
  const std::vector<uint32_t> before = std::exchange(index_, {});
  index_.assign(before.size() * 2, 0);
  --index_shift_;
  for (const uint32_t entry : before) {
    if (entry != 0) index_[place_of(keys_[entry - 1])] = entry;
  }
}

/// Those behind it that could not have its place move up, so that every search still ends.
void RowTable::erase(uint64_t key) {
  const size_t mask = index_.size() - 1;
  size_t hole = place_of(key);
  if (index_[hole] == 0) return;
  free_.push_back(index_[hole] - 1);
  for (size_t next = (hole + 1) & mask; index_[next] != 0; next = (next + 1) & mask) {
    const size_t home = home_of(keys_[index_[next] - 1]);
    if (((next - home) & mask) < ((next - hole) & mask)) continue;
    index_[hole] = index_[next];
    hole = next;
  }
  index_[hole] = 0;
}

}  // namespace sumcast::table

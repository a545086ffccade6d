#include "sparse/segment.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "numeric/codec.h"
#include "numeric/fold.h"

namespace sumcast::sparse {
namespace {

/// Room is made when rows are, not when they are asked for.
table::TableShape with_any_room(table::TableShape shape) {
  if (shape.life.is_on()) shape.rows_max = UINT32_MAX - 1;
  return shape;
}

Result<void> pulled_twice(uint32_t worker, uint64_t key) {
  return fail(ErrorCode::kMismatch,
              fmt::format("worker {} pulled key {} twice in one round", worker, key));
}

}  // namespace

Segment::Segment(const Options& options)
    : wire_(options.wire),
      workers_(options.workers),
      gradient_bytes_(numeric::payload_bytes(ElementType::kF32, options.wire, options.shape.width)),
      row_codec_(options.row_wire, options.shape.width),
      table_(with_any_room(options.shape)),
      pulled_(options.workers),
      waiting_(options.workers),
      pushes_(options.workers),
      committed_(options.workers),
      sum_(gradient_bytes_) {
  if (!options.shape.life.is_on()) return;
  living_.emplace(options.shape, options.candidates_max, !options.checkpoint_directory.empty(),
                  table_);
}

Result<void> Segment::add_gradients(uint32_t worker, std::span<const std::byte> encoded,
                                    uint32_t rows) {
  SUMCAST_ASSERT(worker < workers_ && encoded.size() == rows * gradient_bytes_);
  auto& waiting = waiting_[worker];
  const size_t pulled = waiting.empty() ? 0 : waiting.front().size();
  if (rows != pulled) {
    return fail(ErrorCode::kMismatch,
                fmt::format("worker {} pushed gradients of {} rows, but it had pulled {}", worker,
                            rows, pulled));
  }
  if (waiting.empty()) return {};
  pushes_[worker] = {encoded.data(), std::move(waiting.front())};
  waiting.pop_front();
  return {};
}

Result<void> Segment::add_gradients_of(uint32_t worker, std::span<const uint64_t> keys,
                                       std::span<const std::byte> encoded) {
  SUMCAST_ASSERT(worker < workers_ && encoded.size() == keys.size() * gradient_bytes_);
  Named named;
  if (auto found = name_rows(worker, keys, named); !found) return found;
  pushes_[worker] = {encoded.data(), std::move(named)};
  return {};
}

void Segment::skip_pulled(uint32_t worker) {
  if (!waiting_[worker].empty()) waiting_[worker].pop_front();
}

void Segment::forget_round() {
  pushes_.assign(pushes_.size(), Push());
  waiting_.assign(waiting_.size(), {});
}

void Segment::note_moved(uint32_t row) {
  if (row >= moved_.size()) moved_.resize(table_.end(), 0);
  moved_[row] = checkpoint_ + 1;
}

size_t Segment::count_moved(uint32_t base) const {
  if (living_) return living_->count_changed(base);
  return static_cast<size_t>(
      std::ranges::count_if(moved_, [&](uint32_t moved) { return moved > base; }));
}

void Segment::each_moved(uint32_t base,
                         const std::function<void(uint64_t key, const float* record)>& take) const {
  if (living_) return living_->each_changed(base, take);
  for (uint32_t row = 0; row < moved_.size(); ++row) {
    if (moved_[row] > base) take(table_.key(row), table_.record(row));
  }
}

void Segment::note_checkpoint(uint32_t number) {
  checkpoint_ = number;
  if (living_) living_->note_checkpoint(number);
}

void Segment::forget_before(uint32_t standing) {
  if (living_) living_->forget_before(standing);
}

void Segment::begin_restore(uint64_t steps) {
  steps_before_ = steps;
  is_restoring_ = true;
}

Result<void> Segment::end_restore() {
  is_restoring_ = false;
  return living_ ? living_->trim() : Result<void>();
}

Result<void> Segment::apply(uint64_t step, float rate) {
  table_.set_rate(rate);
  const std::vector<uint64_t> before = committed_;
  committed_.assign(workers_, step);
  auto done = commit();
  if (!done) committed_ = before;  // Told again, elsewhere, it is to fail again.
  return done;
}

Result<void> Segment::apply_alone(uint32_t worker, uint64_t step, float rate) {
  table_.set_rate(rate);
  const uint64_t before = std::exchange(committed_[worker], step);
  auto done = commit();
  if (!done) committed_[worker] = before;
  return done;
}

/// Steps of all jobs, this one's last one included; asynchronous: of the worker that is furthest.
uint32_t Segment::now() const {
  const uint64_t steps = steps_before_ + *std::ranges::max_element(committed_);
  return static_cast<uint32_t>(std::min<uint64_t>(steps, UINT32_MAX - 1));
}

Result<void> Segment::commit() {
  if (!living_) {
    move_rows();
    return {};
  }
  if (auto admitted = admit(now()); !admitted) return admitted;
  move_rows();
  living_->sweep(now());
  return {};
}

/// From keys that were pushed to the rows that they have, or get now; others have none.
Result<void> Segment::admit(uint32_t now) {
  std::vector<uint64_t> keys;
  for (const Push& push : pushes_)
    keys.insert(keys.end(), push.of.keys.begin(), push.of.keys.end());
  if (auto updated = living_->update(keys, now); !updated) return updated;
  for (Push& push : pushes_) {
    for (const uint64_t key : push.of.keys) push.of.rows.push_back(table_.find(key));
  }
  return {};
}

void Segment::move_rows() {
  // Which rows were touched, and by how many workers.
  stamp_.resize(table_.end(), 0);
  place_.resize(table_.end(), 0);
  ++round_stamp_;
  touched_.clear();
  begin_.assign(1, 0);
  for (uint32_t worker = 0; worker < workers_; ++worker) {
    for (const uint32_t row : pushes_[worker].of.rows) {
      if (row == table::RowTable::kNone) continue;
      if (stamp_[row] != round_stamp_) {
        stamp_[row] = round_stamp_;
        place_[row] = static_cast<uint32_t>(touched_.size());
        touched_.push_back(row);
        begin_.push_back(0);
      }
      ++begin_[place_[row] + 1];
    }
  }
  for (size_t place = 0; place < touched_.size(); ++place) begin_[place + 1] += begin_[place];
  // Where their gradients lie, row by row, in rank order.
  sources_.resize(begin_.back());
  std::vector<uint32_t> next(begin_.begin(), begin_.end() - 1);
  for (uint32_t worker = 0; worker < workers_; ++worker) {
    Push& push = pushes_[worker];
    for (size_t i = 0; i < push.of.rows.size(); ++i) {
      const uint32_t row = push.of.rows[i];
      if (row == table::RowTable::kNone) continue;
      sources_[next[place_[row]]++] = push.encoded + i * gradient_bytes_;
    }
    push = {};
  }
  std::vector<float> gradient(table_.shape().width);
  for (size_t place = 0; place < touched_.size(); ++place) {
    fold_row(place, gradient.data());
    table_.step(touched_[place], gradient.data());
    if (!living_) note_moved(touched_[place]);
  }
}

/// The sum as an aggregator returns it: encoded once more, if the wire is lossy.
void Segment::fold_row(size_t place, float* gradient) {
  const std::byte* const* const sources = sources_.data() + begin_[place];
  const size_t count = begin_[place + 1] - begin_[place];
  const size_t width = table_.shape().width;
  if (wire_ == WireFormat::kNative) {
    numeric::fold(ElementType::kF32, Reduction::kSum, sources, count, width, workers_,
                  reinterpret_cast<std::byte*>(gradient));
    return;
  }
  numeric::fold_encoded(wire_, Reduction::kSum, sources, count, width, workers_, sum_.data());
  numeric::decode(wire_, sum_.data(), width, gradient);
}

/// Distinct keys.
Result<void> Segment::name_rows(uint32_t worker, std::span<const uint64_t> keys, Named& named) {
  named.rows.clear(), named.keys.clear();
  if (!living_) return find_rows(worker, keys, named.rows);
  std::vector<uint64_t> sorted(keys.begin(), keys.end());
  std::ranges::sort(sorted);
  if (const auto twice = std::ranges::adjacent_find(sorted); twice != sorted.end()) {
    return pulled_twice(worker, *twice);
  }
  named.keys.assign(keys.begin(), keys.end());
  return {};
}

/// Distinct keys' rows, made where there are none.
Result<void> Segment::find_rows(uint32_t worker, std::span<const uint64_t> keys,
                                std::vector<uint32_t>& rows) {
  rows.clear();
  rows.reserve(keys.size());
  for (const uint64_t key : keys) {
    const uint32_t row = table_.find_or_make(key);
    if (row == table::RowTable::kNone) {
      return fail(ErrorCode::kUnavailable,
                  fmt::format("the table is full: {} rows in this segment, and key {} is new",
                              table_.size(), key));
    }
    rows.push_back(row);
  }
  stamp_.resize(table_.end(), 0);
  ++round_stamp_;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (stamp_[rows[i]] == round_stamp_) {
      return pulled_twice(worker, keys[i]);
    }
    stamp_[rows[i]] = round_stamp_;
  }
  return {};
}

Result<void> Segment::set_pulled(uint32_t worker, std::span<const uint64_t> keys, bool is_kept) {
  if (auto found = name_rows(worker, keys, pulled_[worker]); !found) {
    pulled_[worker] = {};
    return found;
  }
  if (is_kept) waiting_[worker].push_back(pulled_[worker]);
  return {};
}

void Segment::read_rows(uint32_t worker, std::byte* out) const {
  for (const uint32_t row : pulled_[worker].rows) {
    row_codec_.encode(table_.record(row), out);
    out += row_codec_.row_bytes();
  }
  std::vector<float> record(living_ ? table_.shape().record_lanes() : 0);
  for (const uint64_t key : pulled_[worker].keys) {
    living_->read(key, record.data());
    row_codec_.encode(record.data(), out);
    out += row_codec_.row_bytes();
  }
}

void Segment::read_records(std::span<const uint64_t> keys, float* out) const {
  const size_t lanes = table_.shape().record_lanes();
  for (const uint64_t key : keys) {
    if (living_) {
      living_->read(key, out);
      out += lanes;
      continue;
    }
    const uint32_t row = table_.find(key);
    if (row == table::RowTable::kNone) {
      table_.shape().make_record(key, out);
    } else {
      std::memcpy(out, table_.record(row), lanes * sizeof(float));
    }
    out += lanes;
  }
}

Result<void> Segment::write_records(std::span<const uint64_t> keys, const float* records) {
  const size_t lanes = table_.shape().record_lanes();
  if (living_) {
    for (const uint64_t key : keys) {
      living_->write(key, records, now());
      records += lanes;
    }
    return is_restoring_ ? Result<void>() : living_->trim();
  }
  for (const uint64_t key : keys) {
    const uint32_t row = table_.find_or_make(key);
    if (row == table::RowTable::kNone) {
      return fail(ErrorCode::kUnavailable,
                  fmt::format("the table is full: {} rows in this segment, and key {} is new",
                              table_.size(), key));
    }
    std::memcpy(table_.record(row), records, lanes * sizeof(float));
    note_moved(row);
    records += lanes;
  }
  return {};
}

}  // namespace sumcast::sparse

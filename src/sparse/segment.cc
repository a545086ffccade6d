#include "sparse/segment.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "numeric/codec.h"
#include "numeric/fold.h"

namespace sumcast::sparse {

Segment::Segment(const Options& options)
    : wire_(options.wire),
      workers_(options.workers),
      gradient_bytes_(numeric::payload_bytes(ElementType::kF32, options.wire, options.shape.width)),
      table_(options.shape),
      pulled_(options.workers),
      waiting_(options.workers),
      pushes_(options.workers),
      committed_(options.workers),
      sum_(gradient_bytes_) {}

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
  std::vector<uint32_t> rows;
  if (auto found = find_rows(worker, keys, rows); !found) return found;
  pushes_[worker] = {encoded.data(), std::move(rows)};
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
  if (row >= moved_.size()) moved_.resize(table_.size(), 0);
  moved_[row] = checkpoint_ + 1;
}

size_t Segment::count_moved(uint32_t base) const {
  return static_cast<size_t>(
      std::ranges::count_if(moved_, [&](uint32_t moved) { return moved > base; }));
}

void Segment::each_moved(uint32_t base,
                         const std::function<void(uint64_t key, const float* record)>& take) const {
  for (uint32_t row = 0; row < moved_.size(); ++row) {
    if (moved_[row] > base) take(table_.key(row), table_.record(row));
  }
}

size_t Segment::apply(uint64_t step) {
  committed_.assign(workers_, step);
  return move_rows();
}

size_t Segment::apply_alone(uint32_t worker, uint64_t step) {
  committed_[worker] = step;
  return move_rows();
}

size_t Segment::move_rows() {
  // Which rows were touched, and by how many workers.
  stamp_.resize(table_.size(), 0);
  place_.resize(table_.size(), 0);
  ++round_stamp_;
  touched_.clear();
  begin_.assign(1, 0);
  for (uint32_t worker = 0; worker < workers_; ++worker) {
    for (const uint32_t row : pushes_[worker].rows) {
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
    for (size_t i = 0; i < push.rows.size(); ++i) {
      sources_[next[place_[push.rows[i]]]++] = push.encoded + i * gradient_bytes_;
    }
    push = {};
  }
  std::vector<float> gradient(table_.shape().width);
  for (size_t place = 0; place < touched_.size(); ++place) {
    fold_row(place, gradient.data());
    table_.step(touched_[place], gradient.data());
    note_moved(touched_[place]);
  }
  return touched_.size();
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
  stamp_.resize(table_.size(), 0);
  ++round_stamp_;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (stamp_[rows[i]] == round_stamp_) {
      return fail(ErrorCode::kMismatch,
                  fmt::format("worker {} pulled key {} twice in one round", worker, keys[i]));
    }
    stamp_[rows[i]] = round_stamp_;
  }
  return {};
}

Result<void> Segment::set_pulled(uint32_t worker, std::span<const uint64_t> keys, bool is_kept) {
  if (auto found = find_rows(worker, keys, pulled_[worker]); !found) {
    pulled_[worker].clear();
    return found;
  }
  if (is_kept) waiting_[worker].push_back(pulled_[worker]);
  return {};
}

void Segment::read_rows(uint32_t worker, float* out) const {
  const size_t width = table_.shape().width;
  for (const uint32_t row : pulled_[worker]) {
    std::memcpy(out, table_.record(row), width * sizeof(float));
    out += width;
  }
}

void Segment::read_records(std::span<const uint64_t> keys, float* out) const {
  const size_t lanes = table_.shape().record_lanes();
  for (const uint64_t key : keys) {
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

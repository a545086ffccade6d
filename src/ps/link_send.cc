// A link's way out, first half: frames into its queue. link_write.cc empties it.
#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include "net/descriptor.h"
#include "ps/link.h"

namespace sumcast::ps {
namespace {

constexpr size_t kTailMax = 64 << 10;

/// Where copied bytes go: behind the last piece, if that is one of copied bytes with room.
template <typename Pieces>
std::vector<char>& tail(Pieces& pieces) {
  if (pieces.empty() || pieces.back().bytes.empty() || pieces.back().bytes.size() >= kTailMax) {
    pieces.emplace_back();
  }
  return pieces.back().bytes;
}

template <typename Pieces>
void copy_in(Pieces& pieces, const void* from, size_t bytes) {
  const auto* const begin = static_cast<const char*>(from);
  auto& to = tail(pieces);
  to.insert(to.end(), begin, begin + bytes);
}

template <typename Pieces>
void pad(Pieces& pieces, size_t bytes) {
  constexpr char kZeros[8] = {};
  if (const size_t gap = padded(bytes) - bytes; gap > 0) copy_in(pieces, kZeros, gap);
}

/// Puts a frame behind what is there. Returns its bytes.
/// @param lent  which arrays are loans: a bit for each.
template <typename Pieces>
size_t lay_out(Pieces& pieces, const FrameHeader& header,
               const std::vector<::ps::SArray<char>>& arrays,
               const std::vector<::ps::DataType>& types, std::string_view body, uint32_t lent = 0) {
  copy_in(pieces, &header, sizeof header);
  for (size_t i = 0; i < arrays.size(); ++i) {
    const uint64_t word = table_word(types[i], arrays[i].size(), (lent >> i & 1) != 0);
    copy_in(pieces, &word, sizeof word);
  }
  if (!body.empty()) {
    copy_in(pieces, body.data(), body.size());
    pad(pieces, body.size());
  }
  for (const auto& array : arrays) {
    if (array.empty()) continue;
    if (array.size() <= kCopiedMax) {
      copy_in(pieces, array.data(), array.size());
    } else {
      pieces.emplace_back();
      pieces.back().array = array;
    }
    pad(pieces, array.size());
  }
  ++pieces.back().ends;
  return kHeaderBytes + static_cast<size_t>(header.payload_bytes);
}

/// Which arrays are worth lending: a bit for each.
uint32_t lendable(const std::vector<::ps::SArray<char>>& arrays) {
  uint32_t bits = 0;
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (arrays[i].size() >= kLentBytesMin) bits |= 1u << i;
  }
  return bits;
}

}  // namespace

size_t Link::send(FrameHeader header, const std::vector<::ps::SArray<char>>& arrays,
                  const std::vector<::ps::DataType>& types, std::string_view body) {
  const std::lock_guard lock(send_mutex_);
  if (failed_) return 0;
  if (table_) {
    header.sequence = ++data_sequence_;
    OutFrame frame;
    lay_out(frame, header, arrays, types, body);
    table_->push(std::move(frame));
    table_->due(net::monotonic_now(), [&](uint64_t, const OutFrame& due) { enqueue(due); });
    return queued_bytes_;
  }
  const uint32_t lent = !sealed_ && may_lend ? lendable(arrays) : 0;
  std::vector<::ps::SArray<char>> stand_ins;
  if (lent != 0) {
    stand_ins = arrays;
    lend(header, stand_ins, lent);
  }
  const auto& sent = lent != 0 ? stand_ins : arrays;
  if (sealed_ || by_priority_) {
    OutFrame frame;
    const size_t bytes = lay_out(frame, header, sent, types, body, lent);
    if (by_priority_) {
      // Only between customers: the library's own frames have an order.
      const int priority = header.kind == FrameKind::kData ? header.priority : 0;
      wait_in_line(priority, std::move(frame), bytes);
    } else {
      enqueue(frame);
    }
  } else {
    queued_bytes_ += lay_out(queue_, header, sent, types, body, lent);
    ++queued_frames_;
  }
  return queued_bytes_;
}

/// Under the lock.
void Link::wait_in_line(int priority, OutFrame frame, size_t bytes) {
  if (sealed_) bytes += auth::kSealBytes;
  queued_bytes_ += bytes;
  ++queued_frames_;
  waiting_.push(priority, bytes, std::move(frame));
}

/// Puts loans in the place of arrays, which are kept until they return. Under the lock.
void Link::lend(FrameHeader& header, std::vector<::ps::SArray<char>>& arrays, uint32_t lent) {
  for (size_t i = 0; i < arrays.size(); ++i) {
    if ((lent >> i & 1) == 0) continue;
    const Loan loan{reinterpret_cast<uint64_t>(arrays[i].data()), arrays[i].size(), next_loan_++};
    header.payload_bytes += sizeof loan;
    header.payload_bytes -= padded(arrays[i].size());
    loans_.emplace(loan.id, arrays[i]);
    ::ps::SArray<char> stand_in;
    stand_in.CopyFrom(reinterpret_cast<const char*>(&loan), sizeof loan);
    arrays[i] = stand_in;
  }
}

void Link::on_return(uint64_t loan) {
  ::ps::SArray<char> array;  // Released without the lock: its deleter is the program's.
  const std::lock_guard lock(send_mutex_);
  const auto it = loans_.find(loan);
  if (it == loans_.end()) return;
  array = std::move(it->second);
  loans_.erase(it);
}

void Link::send_return(uint64_t loan) { send_short(FrameKind::kReturn, loan); }
void Link::send_ack(uint64_t next) { send_short(FrameKind::kAck, next); }

/// Queues a whole frame. Under the lock.
void Link::enqueue(const OutFrame& frame) {
  queued_bytes_ += append(frame);
  ++queued_frames_;
}

/// Puts a frame that is counted behind those to be written next. Returns its bytes.
size_t Link::append(const OutFrame& frame) {
  size_t bytes = sealed_ ? auth::kSealBytes : 0;
  for (const Piece& piece : frame) {
    bytes += piece.size();
    queue_.push_back(piece);
  }
  return bytes;
}

bool Link::has_queued() const {
  const std::lock_guard lock(send_mutex_);
  return !failed_ && queued_bytes_ > 0;
}

bool Link::is_idle() const {
  const std::lock_guard lock(send_mutex_);
  return failed_ || (queued_bytes_ == 0 && loans_.empty() && (!table_ || table_->empty()));
}

void Link::enable_resend(const core::RttEstimator::Config& config) {
  const std::lock_guard lock(send_mutex_);
  table_.emplace(config);
}

void Link::on_ack(uint64_t next, Instant now) {
  const std::lock_guard lock(send_mutex_);
  if (!table_) return;
  table_->on_ack(next, now);
  table_->due(now, [&](uint64_t, const OutFrame& frame) { enqueue(frame); });
}

Instant Link::repeat(Instant now) {
  const std::lock_guard lock(send_mutex_);
  if (!table_ || failed_) return Instant::never();
  if (table_->next_due() <= now) {
    table_->due(now, [&](uint64_t, const OutFrame& frame) { enqueue(frame); });
  }
  return table_->next_due();
}

void Link::send_short(FrameKind kind, uint64_t sequence) {
  FrameHeader header;
  header.kind = kind;
  header.sequence = sequence;
  const std::lock_guard lock(send_mutex_);
  if (failed_) return;
  if (sealed_ || by_priority_) {
    OutFrame frame;
    const size_t bytes = lay_out(frame, header, {}, {}, {});
    if (by_priority_) {
      wait_in_line(INT_MAX, std::move(frame), bytes);
    } else {
      enqueue(frame);
    }
  } else {
    queued_bytes_ += lay_out(queue_, header, {}, {}, {});
    ++queued_frames_;
  }
}

uint64_t Link::repeats() const {
  const std::lock_guard lock(send_mutex_);
  return table_ ? table_->repeats() : 0;
}

}  // namespace sumcast::ps

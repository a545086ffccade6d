#include "mesh/pump.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/assert.h"
#include "mesh/handshake.h"
#include "net/descriptor.h"
#include "numeric/fold.h"

namespace sumcast::mesh {
namespace {

constexpr size_t kPartsMax = 6;
// So much is offered to the kernel at once, so that receiving gets its turn.
constexpr size_t kSendBytesMax = 256 << 10;
// In the middle of a long piece the kernel wakes us once so much is there: over links that deliver
// packet by packet this saves most wake-ups. It never reaches beyond the piece that arrives, since
// what follows may depend on bytes that this rank has not passed on yet.
constexpr size_t kLowWaterBytes = 32 << 10;

class Pump {
 public:
  Pump(const Transfer& transfer, Instant deadline) : t_(transfer), deadline_(deadline) {
    if (t_.to == nullptr) name_sent_ = sizeof(OperationName);
    if (t_.from == nullptr) name_received_ = sizeof(OperationName);
    skip_empty();
  }

  Result<void> run();

 private:
  /// A place in a list of pieces: `done` bytes of piece `at`, and all before it.
  struct Cursor {
    uint32_t at = 0;
    size_t done = 0;

    /// How far piece `piece` of this list has got, if it has `whole` bytes.
    size_t progress(uint32_t piece, size_t whole) const {
      if (piece == kNoPiece || piece < at) return whole;
      return piece == at ? std::min(done, whole) : 0;
    }
  };

  bool all_sent() const {
    return name_sent_ == sizeof(OperationName) && sent_.at == t_.outgoing.size();
  }
  bool all_received() const {
    return name_received_ == sizeof(OperationName) && received_.at == t_.incoming.size();
  }

  std::span<iovec> sendable();
  size_t receivable() const;
  Result<void> send_some(std::span<iovec> parts);
  Result<void> receive_some(size_t limit, bool wait);
  Result<void> take(size_t bytes);
  Result<void> check_name();
  Result<void> wait_for_either(bool for_send, bool for_receive);
  void aim_low_water(size_t limit);
  Result<void> wait_in_receive(size_t limit);
  void advance_sent(size_t bytes);
  void store_staged(const Incoming& piece, size_t bytes);
  void skip_empty();
  Error broken(const Stream& stream, int error_number) const;
  Error late() const;

  const Transfer& t_;
  const Instant deadline_;
  Cursor sent_, received_;
  size_t name_sent_ = 0, name_received_ = 0;
  OperationName their_name_;
  bool staged_ = false;  ///< What the last receive brought lies in the segment.
  size_t carry_ = 0;     ///< Bytes of an unfinished element at the segment's start.
  bool send_full_ = false, receive_empty_ = false;  ///< Until ppoll says otherwise.
  std::array<iovec, kPartsMax> parts_;
};

Result<void> Pump::run() {
  while (!all_sent() || !all_received()) {
    const std::span<iovec> parts = sendable();
    if (!parts.empty() && !send_full_) {
      if (auto sent = send_some(parts); !sent) return sent;
      // What was offered may have been held back by what has not arrived, so look again only below.
    }
    const bool may_send = !all_sent() && !sendable().empty();
    const bool name_due = name_received_ < sizeof(OperationName);
    const size_t limit = all_received() ? 0 : receivable();
    const bool may_receive = name_due || limit > 0;
    Result<void> step;
    if (may_receive && !may_send) {
      step = wait_in_receive(limit);
    } else if (may_receive && !receive_empty_) {
      step = receive_some(limit, false);
    }
    if (!step) return step;
    if (may_send && send_full_ && (!may_receive || receive_empty_)) {
      if (may_receive) aim_low_water(all_received() ? 0 : receivable());
      if (auto ready = wait_for_either(true, may_receive); !ready) return ready;
    }
    SUMCAST_ASSERT(may_send || may_receive || all_sent());
  }
  return {};
}

/// What may leave now: the name, then pieces as far as they have their bytes.
std::span<iovec> Pump::sendable() {
  if (t_.to == nullptr) return {};
  size_t count = 0;
  size_t bytes = 0;
  if (name_sent_ < sizeof(OperationName)) {
    const auto left = bytes_of(t_.name).subspan(name_sent_);
    parts_[count++] = {const_cast<std::byte*>(left.data()), left.size()};
  }
  Cursor at = sent_;
  while (at.at < t_.outgoing.size() && count < kPartsMax && bytes < kSendBytesMax) {
    const Outgoing& piece = t_.outgoing[at.at];
    const size_t ready = received_.progress(piece.follows, piece.bytes);
    const size_t length = std::min(ready - std::min(ready, at.done), kSendBytesMax - bytes);
    if (length > 0) parts_[count++] = {const_cast<std::byte*>(piece.data) + at.done, length};
    bytes += length;
    if (at.done + length < piece.bytes) break;
    at = {at.at + 1, 0};
  }
  return std::span(parts_).first(count);
}

Result<void> Pump::send_some(std::span<iovec> parts) {
  size_t offered = 0;
  for (const iovec& part : parts) offered += part.iov_len;
  const Moved moved = t_.to->send(parts);
  if (moved.error_number != 0) return fail(broken(*t_.to, moved.error_number));
  send_full_ = moved.bytes < offered;
  advance_sent(moved.bytes);
  return {};
}

void Pump::advance_sent(size_t bytes) {
  const size_t of_name = std::min(bytes, sizeof(OperationName) - name_sent_);
  name_sent_ += of_name;
  bytes -= of_name;
  while (bytes > 0) {
    const size_t step = std::min(bytes, t_.outgoing[sent_.at].bytes - sent_.done);
    sent_.done += step;
    bytes -= step;
    skip_empty();
  }
}

/// Moves both cursors past pieces of which nothing is left.
void Pump::skip_empty() {
  while (sent_.at < t_.outgoing.size() && sent_.done == t_.outgoing[sent_.at].bytes) {
    sent_ = {sent_.at + 1, 0};
  }
  while (received_.at < t_.incoming.size() && received_.done == t_.incoming[received_.at].bytes) {
    received_ = {received_.at + 1, 0};
  }
}

/// Bytes of the current incoming piece that have a place to go, less those that wait in `carry_`.
size_t Pump::receivable() const {
  if (received_.at == t_.incoming.size()) return 0;
  const Incoming& piece = t_.incoming[received_.at];
  size_t allowed = piece.bytes;
  if (piece.after != kNoPiece) {
    const size_t before = t_.outgoing[piece.after].bytes;
    const size_t left = sent_.progress(piece.after, before);
    if (left < before) allowed = std::min(allowed, left);
  }
  const size_t have = received_.done + carry_;
  return allowed - std::min(allowed, have);
}

Result<void> Pump::receive_some(size_t limit, bool wait) {
  std::array<iovec, 2> parts;
  size_t count = 0;
  size_t asked = 0;
  const bool name_due = name_received_ < sizeof(OperationName);
  if (name_due) {
    const auto left = writable_bytes_of(their_name_).subspan(name_received_);
    parts[count++] = {left.data(), left.size()};
    asked += left.size();
  }
  if (limit > 0) {
    const Incoming& piece = t_.incoming[received_.at];
    // Data that comes with the name is not let near its target before the name was compared.
    staged_ = name_due || piece.own != nullptr;
    std::byte* place = staged_ ? t_.segment + carry_ : piece.target + received_.done;
    const size_t length = std::min(limit, kSegmentBytes - carry_);
    parts[count++] = {place, length};
    asked += length;
  }
  const Moved moved = t_.from->receive(std::span(parts).first(count), wait);
  if (moved.error_number != 0) return fail(broken(*t_.from, moved.error_number));
  receive_empty_ = moved.bytes < asked;
  return take(moved.bytes);
}

/// Puts `bytes` received bytes where they belong.
Result<void> Pump::take(size_t bytes) {
  const size_t of_name = std::min(bytes, sizeof(OperationName) - name_received_);
  if (of_name > 0) {
    name_received_ += of_name;
    bytes -= of_name;
    if (name_received_ < sizeof(OperationName)) return {};
    if (auto same = check_name(); !same) return same;
  }
  if (bytes == 0) return {};
  const Incoming& piece = t_.incoming[received_.at];
  if (staged_) {
    store_staged(piece, bytes);
  } else {
    received_.done += bytes;
  }
  skip_empty();
  return {};
}

void Pump::store_staged(const Incoming& piece, size_t bytes) {
  std::byte* target = piece.target + received_.done;
  if (piece.own == nullptr) {
    std::memcpy(target, t_.segment, bytes);
    received_.done += bytes;
    return;
  }
  const size_t have = carry_ + bytes;
  const size_t element = element_bytes(t_.arithmetic.type);
  const size_t lanes = have / element;
  const std::byte* sources[2] = {t_.segment, piece.own + received_.done};
  if (lanes > 0) {
    numeric::fold(t_.arithmetic.type, piece.reduction, sources, 2, lanes, t_.arithmetic.group_size,
                  target);
  }
  const size_t whole = lanes * element;
  carry_ = have - whole;
  if (carry_ > 0) std::memmove(t_.segment, t_.segment + whole, carry_);
  received_.done += whole;
}

Result<void> Pump::check_name() {
  const OperationName& mine = t_.name;
  const OperationName& theirs = their_name_;
  if (theirs.magic != mine.magic || theirs.group != mine.group) {
    return fail(ErrorCode::kInternal, t_.from->peer() + " sent bytes that begin no operation");
  }
  if (theirs.sequence == mine.sequence && theirs.digest == mine.digest) return {};
  return fail(ErrorCode::kMismatch,
              fmt::format("{} and rank {} called different operations in group {}: number {} with "
                          "digest {:08x} there, number {} with digest {:08x} here",
                          t_.from->peer(), mine.rank.value, mine.group.value, theirs.sequence,
                          theirs.digest, mine.sequence, mine.digest));
}

void Pump::aim_low_water(size_t limit) {
  const size_t left = limit == 0 ? 0 : t_.incoming[received_.at].bytes - received_.done - carry_;
  const bool in_the_middle = left >= 2 * kLowWaterBytes && limit >= kLowWaterBytes;
  t_.from->set_low_water(in_the_middle ? kLowWaterBytes : 1);
}

/// Nothing can be done until the peer before us sends.
Result<void> Pump::wait_in_receive(size_t limit) {
  aim_low_water(limit);
  const Duration patience = deadline_ - net::monotonic_now();
  if (patience <= 2 * kReceiveTick) {  // Too close for recv(), whose clock is coarse.
    if (auto ready = wait_for_either(false, true); !ready) return ready;
    return receive_some(limit, false);
  }
  return receive_some(limit, true);
}

Result<void> Pump::wait_for_either(bool for_send, bool for_receive) {
  pollfd entries[2] = {{for_send ? t_.to->fd() : -1, POLLOUT, 0},
                       {for_receive ? t_.from->fd() : -1, POLLIN, 0}};
  for (;;) {
    const timespec timeout = net::time_left(deadline_);
    const bool endless = deadline_ == Instant::never();
    const int ready = ::ppoll(entries, 2, endless ? nullptr : &timeout, nullptr);
    if (ready == 0) return fail(late());
    if (ready > 0) break;
    if (errno != EINTR) return fail(net::system_error("cannot wait for streams", errno));
  }
  if (entries[0].revents != 0) send_full_ = false;
  if (entries[1].revents != 0) receive_empty_ = false;
  return {};
}

Error Pump::broken(const Stream& stream, int error_number) const {
  const std::string where =
      fmt::format(" in operation {} of group {}", t_.name.sequence, t_.name.group.value);
  if (error_number == kPeerClosed || error_number == ECONNRESET || error_number == EPIPE) {
    return {ErrorCode::kUnavailable,
            stream.peer() + " closed its stream" + where + ": it died, or aborted the group"};
  }
  return {ErrorCode::kUnavailable, fmt::format("the stream to {} broke{}: {}", stream.peer(), where,
                                               std::system_category().message(error_number))};
}

Error Pump::late() const {
  const std::string where =
      fmt::format(" in operation {} of group {}", t_.name.sequence, t_.name.group.value);
  if (!all_received() && t_.from != nullptr) {
    return {ErrorCode::kTimeout, t_.from->peer() + " sends no more data" + where};
  }
  return {ErrorCode::kTimeout, t_.to->peer() + " takes no more data" + where};
}

}  // namespace

Result<void> pump(const Transfer& transfer, Instant deadline) {
  return Pump(transfer, deadline).run();
}

}  // namespace sumcast::mesh

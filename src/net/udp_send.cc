// UdpSocket's way out.
//
// Two paths with the same bytes on the wire. *Whole*: a run is one message that points at the
// caller's parts as they are, and the kernel cuts it (UDP_SEGMENT). *Split*: we cut it, walking the
// parts, one message per datagram. The split path serves kernels without offload, runs of which an
// earlier call sent a part, and devices that refuse offload when first used.
#include <algorithm>
#include <bit>
#include <cerrno>

#include "net/udp.h"
#include "net/udp_scratch.h"

namespace sumcast::net {
namespace {

SendFailure failure_of(int error_number) {
  switch (error_number) {
    case EMSGSIZE:
      return SendFailure::kTooBig;
    case ECONNREFUSED:
      return SendFailure::kRefused;
    case ENETUNREACH:
    case EHOSTUNREACH:
    case ENETDOWN:
    case EHOSTDOWN:
      return SendFailure::kUnreachable;
    case ENOBUFS:
    case ENOMEM:
      return SendFailure::kNoBuffers;
    default:
      return SendFailure::kOther;
  }
}

void note_error(int error_number, SendOutcome& outcome) {
  if (error_number == EAGAIN || error_number == EWOULDBLOCK) {
    outcome.would_block = true;
  } else if (error_number != 0) {
    outcome.failure = failure_of(error_number);
    outcome.error_number = error_number;
  }
}

/// The kernel or the device may be unable to segment this run: EIO if the device cannot compute
/// checksums, EINVAL (EMSGSIZE on newer kernels) if a segment exceeds the MTU, in which case the
/// plain path tells fragments from a real EMSGSIZE.
bool may_be_about_offload(int error_number) {
  return error_number == EIO || error_number == EINVAL || error_number == EMSGSIZE;
}

void set_destination(msghdr& message, const Endpoint* to) {
  message.msg_name = to == nullptr ? nullptr : const_cast<sockaddr*>(to->raw());
  message.msg_namelen = to == nullptr ? 0 : to->raw_bytes();
}

[[maybe_unused]] size_t total_bytes(std::span<const iovec> parts) {
  size_t bytes = 0;
  for (const iovec& part : parts) bytes += part.iov_len;
  return bytes;
}

void check_run(const SendRun& run) {
  SUMCAST_ASSERT(run.datagram_bytes > 0 && run.datagram_bytes <= kPayloadBytesMax);
  SUMCAST_ASSERT(run.datagrams > 0 && run.datagrams <= segments_max(run.datagram_bytes));
  SUMCAST_ASSERT(run.last_bytes > 0 && run.last_bytes <= run.datagram_bytes);
  SUMCAST_ASSERT(run.skip < run.datagrams);
  SUMCAST_DCHECK(total_bytes(run.parts) == run.bytes());
}

/// Where in a run's parts the next byte lies.
class PartCursor {
 public:
  PartCursor(std::span<const iovec> parts, size_t offset) : parts_(parts) { skip(offset); }

  /// Describes the next `bytes` bytes in `room`. Returns how many entries that took, or 0 if there
  /// is too little room, and then stays where it is.
  size_t take(uint32_t bytes, std::span<iovec> room) {
    const PartCursor before = *this;
    size_t used = 0;
    for (size_t left = bytes; left > 0;) {
      if (used == room.size()) {
        *this = before;
        return 0;
      }
      SUMCAST_ASSERT(part_ < parts_.size());
      const iovec& part = parts_[part_];
      const size_t here = std::min(left, part.iov_len - offset_);
      if (here > 0) room[used++] = {static_cast<std::byte*>(part.iov_base) + offset_, here};
      left -= here;
      offset_ += here;
      step();
    }
    return used;
  }

 private:
  void skip(size_t bytes) {
    offset_ = bytes;
    while (part_ < parts_.size() && offset_ >= parts_[part_].iov_len) {
      offset_ -= parts_[part_++].iov_len;
    }
  }
  void step() {
    if (offset_ == parts_[part_].iov_len) {
      ++part_;
      offset_ = 0;
    }
  }

  std::span<const iovec> parts_;
  size_t part_ = 0;
  size_t offset_ = 0;
};

/// Walks several runs datagram by datagram.
class SplitCursor {
 public:
  explicit SplitCursor(std::span<const SendRun> runs) : runs_(runs), parts_({}, 0) { enter_run(); }

  bool is_done() const { return runs_.empty(); }

  /// Points `message` at the datagram under the cursor, listing its parts in `room`. False if
  /// `room` is too small.
  bool describe_next(msghdr& message, std::span<iovec> room) {
    const SendRun& run = runs_.front();
    const bool last = datagram_ + 1 == run.datagrams;
    const size_t used = parts_.take(last ? run.last_bytes : run.datagram_bytes, room);
    set_destination(message, run.to);
    message.msg_iov = room.data();
    message.msg_iovlen = used;
    return used > 0;
  }

  /// Goes on to the next datagram. True if that left a run behind.
  bool advance() {
    if (++datagram_ < runs_.front().datagrams) return false;
    runs_ = runs_.subspan(1);
    enter_run();
    return true;
  }

 private:
  void enter_run() {
    if (runs_.empty()) return;
    const SendRun& run = runs_.front();
    check_run(run);
    datagram_ = run.skip;
    parts_ = PartCursor(run.parts, size_t{run.skip} * run.datagram_bytes);
  }

  std::span<const SendRun> runs_;
  uint32_t datagram_ = 0;
  PartCursor parts_;
};

}  // namespace

/// Sends scratch_->send[0, messages). The kernel reports an error only for the first message of a
/// call, so after a short count we ask again: once, and only when something is wrong.
UdpSocket::Pushed UdpSocket::push(uint32_t messages) {
  uint32_t sent = 0;
  while (sent < messages) {
    ++system_calls_;
    const int result = ::sendmmsg(fd_.get(), scratch_->send.data() + sent, messages - sent,
                                  MSG_DONTWAIT | MSG_NOSIGNAL);
    if (result < 0) {
      if (errno == EINTR) continue;
      return {sent, errno};
    }
    sent += static_cast<uint32_t>(result);
  }
  return {sent, 0};
}

SendOutcome UdpSocket::send_many(std::span<const SendRun> runs) {
  SendOutcome outcome;
  while (outcome.runs < runs.size() && outcome.complete()) {
    const auto rest = runs.subspan(outcome.runs);
    if (!gso_) {
      send_split(rest, outcome);
    } else if (rest.front().skip > 0) {
      send_split(rest.first(1), outcome);
    } else {
      send_whole(rest, outcome);
    }
  }
  return outcome;
}

/// One system call for as many runs as fit into one, up to the first that begins in its middle.
void UdpSocket::send_whole(std::span<const SendRun> runs, SendOutcome& outcome) {
  uint32_t messages = 0;
  for (const SendRun& run : runs) {
    if (messages == kMessagesMax || run.skip > 0) break;
    check_run(run);
    msghdr& message = scratch_->send[messages].msg_hdr;
    set_destination(message, run.to);
    message.msg_iov = const_cast<iovec*>(run.parts.data());  // The kernel only reads it.
    message.msg_iovlen = run.parts.size();
    scratch_->set_segment_bytes(messages, run.datagrams, run.datagram_bytes);
    ++messages;
  }
  const Pushed pushed = push(messages);
  for (uint32_t i = 0; i < pushed.messages; ++i) outcome.datagrams += runs[i].datagrams;
  outcome.runs += pushed.messages;
  if (pushed.error_number == 0) return;

  const SendRun& refused = runs[pushed.messages];
  if (refused.datagrams == 1 || !may_be_about_offload(pushed.error_number)) {
    note_error(pushed.error_number, outcome);
    return;
  }
  const uint32_t before = outcome.datagrams;
  send_split({&refused, 1}, outcome);
  // EIO is the device's answer to any run; what it takes one by one it will never take whole.
  if (pushed.error_number == EIO && outcome.datagrams > before) gso_ = false;
}

/// Cuts runs into datagrams, as many per system call as there are headers and parts for.
void UdpSocket::send_split(std::span<const SendRun> runs, SendOutcome& outcome) {
  SplitCursor cursor(runs);
  while (!cursor.is_done()) {
    uint64_t ends_of_runs = 0;  // One bit per message.
    uint32_t messages = 0;
    size_t parts = 0;
    while (messages < kMessagesMax && !cursor.is_done()) {
      msghdr& message = scratch_->send[messages].msg_hdr;
      const auto room = std::span(scratch_->send_parts).subspan(parts);
      if (!cursor.describe_next(message, room)) break;
      scratch_->set_segment_bytes(messages, 1, 0);
      parts += message.msg_iovlen;
      if (cursor.advance()) ends_of_runs |= uint64_t{1} << messages;
      ++messages;
    }
    SUMCAST_ASSERT(messages > 0);  // One datagram never has more parts than there is room for.
    const Pushed pushed = push(messages);
    outcome.datagrams += pushed.messages;
    if (pushed.messages < kMessagesMax) ends_of_runs &= (uint64_t{1} << pushed.messages) - 1;
    outcome.runs += static_cast<uint32_t>(std::popcount(ends_of_runs));
    if (pushed.error_number != 0) {
      note_error(pushed.error_number, outcome);
      return;
    }
  }
}

}  // namespace sumcast::net

// UdpSocket's way in: the kernel writes straight into pool buffers, several batches per call.
#include <bit>
#include <cerrno>
#include <cstring>

#include "net/udp.h"
#include "net/udp_scratch.h"

namespace sumcast::net {
namespace {

/// The stride of a batch that receive offload merged, or `bytes` for a lone datagram, which comes
/// without a control message. UDP_GRO is the only kind of control message that we asked for.
uint32_t segment_bytes_of(const msghdr& message, uint32_t bytes) {
  if (message.msg_controllen < sizeof(cmsghdr)) return bytes;
  const auto* control = static_cast<const cmsghdr*>(message.msg_control);
  if (control->cmsg_level != SOL_UDP || control->cmsg_type != UDP_GRO) return bytes;
  int stride = 0;  // The kernel writes an int, though it reads a uint16_t when sending.
  std::memcpy(&stride, CMSG_DATA(control), sizeof stride);
  return stride > 0 ? static_cast<uint32_t>(stride) : bytes;
}

/// Gives the buffers of marked batches back and closes the gaps. Returns how many are left.
size_t drop_marked(uint64_t marked, ReceiveBuffers& buffers, std::span<ReceivedBatch> batches) {
  size_t kept = 0;
  for (size_t i = 0; i < batches.size(); ++i) {
    if ((marked >> i & 1) != 0) {
      buffers.release(batches[i].buffer);
    } else {
      batches[kept++] = batches[i];
    }
  }
  return kept;
}

}  // namespace

/// recvmmsg that looks past errors which are not about receiving: a connected socket reports here
/// that an earlier datagram of ours was refused. 0 if nothing waits.
int UdpSocket::receive_messages(uint32_t messages) {
  constexpr int kErrorsMax = 4;  // Errors do not queue up; more in a row belong to the next call.
  for (int errors = 0; errors < kErrorsMax;) {
    ++system_calls_;
    const int count =
        ::recvmmsg(fd_.get(), scratch_->receive.data(), messages, MSG_DONTWAIT, nullptr);
    if (count >= 0) return count;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
    if (errno == EINTR) continue;
    SUMCAST_ASSERT(errno != EBADF && errno != EFAULT && errno != EINVAL && errno != ENOTSOCK);
    ++refusals_;
    ++errors;
  }
  return 0;
}

size_t UdpSocket::receive(ReceiveBuffers& buffers, std::span<ReceivedBatch> out) {
  size_t room = out.size() < kMessagesMax ? out.size() : kMessagesMax;
  if (buffers.available() < room) room = buffers.available();
  if (room == 0) return 0;

  const size_t buffer_bytes = buffers.buffer_bytes();
  for (uint32_t i = 0; i < room; ++i) {
    msghdr& message = scratch_->receive[i].msg_hdr;
    scratch_->receive_parts[i] = {buffers.data(buffers.peek(i)), buffer_bytes};
    // The kernel writes the sender where it is wanted.
    message.msg_name = connected_ ? nullptr : out[i].from.raw_target();
    message.msg_namelen = connected_ ? 0 : Endpoint::kRawBytesMax;
    if (gro_) {
      message.msg_control = &scratch_->receive_control[i];
      message.msg_controllen = sizeof(OneControl);
    }
  }
  const int count = receive_messages(static_cast<uint32_t>(room));

  uint64_t truncated = 0;  // One bit per message.
  for (uint32_t i = 0; i < static_cast<uint32_t>(count); ++i) {
    const mmsghdr& received = scratch_->receive[i];
    const msghdr& message = received.msg_hdr;
    ReceivedBatch& batch = out[i];
    batch.buffer = buffers.acquire();  // The one that peek(i) named.
    batch.data = static_cast<std::byte*>(scratch_->receive_parts[i].iov_base);
    batch.bytes = received.msg_len;
    batch.segment_bytes = gro_ ? segment_bytes_of(message, batch.bytes) : batch.bytes;
    if (!connected_) batch.from.assume_filled(message.msg_namelen);
    if ((message.msg_flags & MSG_TRUNC) != 0) truncated |= uint64_t{1} << i;
  }
  if (truncated == 0) return static_cast<size_t>(count);
  truncated_ += static_cast<uint64_t>(std::popcount(truncated));
  return drop_marked(truncated, buffers, out.first(static_cast<size_t>(count)));
}

}  // namespace sumcast::net

// A UDP socket that moves datagrams by the batch.
//
// One system call costs about as much as copying 40 KiB, and so does each pass through the
// kernel's stack. Both are paid once per batch here: with UDP_SEGMENT the kernel takes up to 64 KiB
// of equal datagrams as one, with UDP_GRO it hands such a batch back, and sendmmsg and recvmmsg
// take several batches per call. Where a kernel or a device lacks offload, the same calls send and
// receive the same bytes one datagram at a time.
//
//   parts   [header][payload in the tensor][tag] [header][payload][tag] ...   (any cut)
//   run     |<------ datagram_bytes ------->|<------ datagram_bytes -->| ... |last_bytes|
//
// The socket never blocks, copies no payload, and allocates nothing after open(). It does not know
// what is in a datagram, and never resends one: what the network loses is the protocol's matter.
//
// A socket belongs to one thread at a time, its headers for the kernel being preset members.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/assert.h"
#include "base/result.h"
#include "net/address.h"
#include "net/descriptor.h"
#include "net/receive_buffers.h"

namespace sumcast::net {

/// Datagrams in one run at most. 44 datagrams of 1,472 bytes (MTU 1500) are the most that fit into
/// 64 KiB; kernels take 64.
inline constexpr uint32_t kSegmentsMax = 44;
/// Bytes of payload in one datagram, or in one run: 65,535 less the headers of IPv4 and UDP. (IPv6
/// would allow 20 more.)
inline constexpr uint32_t kPayloadBytesMax = 65507;
/// Messages per system call at most, both ways.
inline constexpr uint32_t kMessagesMax = 64;

/// How many datagrams of this size a run may have; at least 1.
constexpr uint32_t segments_max(uint32_t datagram_bytes) {
  const uint32_t fit = kPayloadBytesMax / datagram_bytes;
  return fit < kSegmentsMax ? fit : kSegmentsMax;
}

struct UdpOptions {
  Endpoint local;                ///< Must be set; port 0 takes any free one.
  bool dual_stack = false;       ///< With an IPv6 `local`: IPv4 too, as mapped addresses.
  bool reuse_port = false;       ///< Several sockets share the port, the kernel spreads flows.
  bool reuse_address = false;    ///< Takes over a port that another socket still holds.
  int receive_buffer_bytes = 0;  ///< 0: the system's default. The kernel may grant less.
  int send_buffer_bytes = 0;     ///< 0: the system's default. The kernel may grant less.
  bool dont_fragment = true;     ///< A datagram above the MTU is refused (kTooBig), never cut.
  bool gso = true;               ///< false: never use UDP_SEGMENT, even where it works.
  bool gro = true;               ///< false: never use UDP_GRO, even where it works.
};

/// A run of datagrams to one destination; all are `datagram_bytes` long but the last, which may be
/// shorter. Their bytes are those of `parts`, one after another; a part may hold several datagrams,
/// or a datagram several parts. Parts must stay as they are during the call only.
struct SendRun {
  const Endpoint* to = nullptr;  ///< nullptr: the connected peer.
  std::span<const iovec> parts;  ///< At most 1,024, and so per datagram. Exactly the run's bytes.
  uint32_t datagram_bytes = 0;   ///< 1..kPayloadBytesMax.
  uint32_t datagrams = 0;        ///< 1..segments_max(datagram_bytes).
  uint32_t last_bytes = 0;       ///< 1..datagram_bytes.
  uint32_t skip = 0;             ///< Leading datagrams that an earlier call sent already.

  /// A single datagram, all of it in `part`, which outlives the run.
  static SendRun single(const Endpoint* to, const iovec& part) {
    const auto bytes = static_cast<uint32_t>(part.iov_len);
    return {to, {&part, 1}, bytes, 1, bytes};
  }
  uint32_t bytes() const { return (datagrams - 1) * datagram_bytes + last_bytes; }
};

/// Why the kernel refused a datagram.
enum class SendFailure : uint8_t {
  kNone = 0,
  kTooBig = 1,       ///< Larger than the MTU on the way out (EMSGSIZE).
  kRefused = 2,      ///< An earlier datagram found no one listening (ECONNREFUSED); nothing is
                     ///< wrong with this one, and sending it again may work.
  kUnreachable = 3,  ///< No route, or the network or host is down.
  kNoBuffers = 4,    ///< The kernel or the device is out of memory or queue (ENOBUFS, ENOMEM).
  kOther = 5,        ///< See error_number.
};

/// What became of a send. Datagrams are accepted in order, so `datagrams` is a prefix: `runs`
/// whole ones, and the rest of the count from the run after (only without segmentation offload;
/// give them as that run's `skip` next time).
struct SendOutcome {
  uint32_t datagrams = 0;    ///< Accepted by the kernel in this call.
  uint32_t runs = 0;         ///< Runs that are now wholly accepted.
  bool would_block = false;  ///< The send buffer is full: poll for writable, then go on.
  SendFailure failure = SendFailure::kNone;  ///< Of the datagram after the accepted ones.
  int error_number = 0;                      ///< errno of `failure`.

  bool complete() const { return !would_block && failure == SendFailure::kNone; }
};

/// One batch as it arrived: one datagram, or several equal ones from one sender.
struct ReceivedBatch {
  BufferIndex buffer = kNoBuffer;  ///< Held with one reference; the caller releases it.
  std::byte* data = nullptr;       ///< Start of the buffer; valid until its last release.
  uint32_t bytes = 0;              ///< Of all datagrams together.
  uint32_t segment_bytes = 0;      ///< Each datagram's length; the last may be shorter.
  Endpoint from;                   ///< Only on unconnected sockets.
};

/// The datagrams of a batch, by index or in a range-for. Views into its buffer.
class Segments {
 public:
  explicit Segments(const ReceivedBatch& batch)
      : data_(batch.data), bytes_(batch.bytes), stride_(batch.segment_bytes) {}

  uint32_t size() const { return bytes_ == 0 ? 0 : (bytes_ + stride_ - 1) / stride_; }
  std::span<std::byte> operator[](uint32_t i) const { return at(i * stride_); }

  class Iterator {
   public:
    Iterator(const Segments& segments, uint32_t offset) : segments_(&segments), offset_(offset) {}
    std::span<std::byte> operator*() const { return segments_->at(offset_); }
    Iterator& operator++() {
      const uint32_t left = segments_->bytes_ - offset_;
      offset_ += segments_->stride_ < left ? segments_->stride_ : left;
      return *this;
    }
    bool operator!=(const Iterator& other) const { return offset_ != other.offset_; }

   private:
    const Segments* segments_;
    uint32_t offset_;
  };
  Iterator begin() const { return Iterator(*this, 0); }
  Iterator end() const { return Iterator(*this, bytes_); }

 private:
  std::span<std::byte> at(uint32_t offset) const {
    const uint32_t left = bytes_ - offset;
    return {data_ + offset, stride_ < left ? stride_ : left};
  }

  std::byte* data_;
  uint32_t bytes_;
  uint32_t stride_;
};

inline Segments segments(const ReceivedBatch& batch) { return Segments(batch); }

class UdpSocket {
 public:
  /// Opens, binds and probes. Errors: kInvalidArgument (no local address), kUnavailable (port
  /// taken, by whom if known; not an address of this host), kSystem.
  static Result<UdpSocket> open(const UdpOptions& options);
  UdpSocket(UdpSocket&&) noexcept;
  UdpSocket& operator=(UdpSocket&&) noexcept;
  ~UdpSocket();

  /// Fixes the peer: only its datagrams arrive, and runs may leave `to` out. Saves the kernel a
  /// route look-up per call. Errors: kUnavailable (no route), kSystem.
  Result<void> connect(const Endpoint& peer);

  /// Of a socket bound to an IPv4 multicast group: has the group's datagrams delivered here when
  /// they come in by the interface that has `interface`'s address. Errors: kSystem.
  Result<void> join_group(const Endpoint& interface);
  /// Datagrams to a multicast group leave by the interface of this socket's own IPv4 address and
  /// reach its link and no further. Before connect(). Errors: kSystem.
  /// @param this_host  Members on this host, the sender's own process included, get them as well.
  Result<void> send_to_groups(bool this_host);

  const Endpoint& local() const { return local_; }  ///< With the port that was given.
  bool is_connected() const { return connected_; }
  int fd() const { return fd_.get(); }

  bool has_gso() const { return gso_; }  ///< May turn false when a device proves unable to.
  bool has_gro() const { return gro_; }

  /// What the kernel says it granted: twice what was asked for, as it counts its own overhead in.
  int receive_buffer_bytes() const;
  int send_buffer_bytes() const;

  /// Sends one run, in one system call with offload.
  SendOutcome send(const SendRun& run) { return send_many({&run, 1}); }
  /// Sends runs in order, up to kMessagesMax per system call. The fan-out of one buffer is many
  /// runs with the same parts. Stops at the first run that blocks or fails.
  SendOutcome send_many(std::span<const SendRun> runs);

  /// Takes what has arrived, at most min(out.size(), buffers.available(), kMessagesMax) batches, in
  /// one system call and without waiting. What is longer than a buffer is dropped and counted.
  ///
  /// @return how many entries of `out` were filled, each with a reference to its buffer. 0 with
  ///         buffers.available() == 0 means that the pool is exhausted, not that nothing waits.
  size_t receive(ReceiveBuffers& buffers, std::span<ReceivedBatch> out);

  /// What the kernel dropped since open, mostly because the receive buffer was full. A batch that
  /// was merged before it was dropped counts as one, so this is a lower bound. One system call.
  uint64_t receive_drops();
  uint64_t truncated() const { return truncated_; }  ///< Dropped: longer than a receive buffer.
  uint64_t refusals() const { return refusals_; }    ///< ICMP errors that receive() consumed.
  uint64_t system_calls() const { return system_calls_; }  ///< Of send and receive, for tests.

 private:
  struct Scratch;  // Preset message headers.
  struct Pushed {
    uint32_t messages;
    int error_number;
  };

  UdpSocket(FileDescriptor fd, bool gso, bool gro);

  Pushed push(uint32_t messages);
  void send_whole(std::span<const SendRun> runs, SendOutcome& outcome);
  void send_split(std::span<const SendRun> runs, SendOutcome& outcome);
  int receive_messages(uint32_t messages);

  FileDescriptor fd_;
  Endpoint local_;
  bool gso_;
  bool gro_;
  bool connected_ = false;
  uint32_t drops_seen_ = 0;  ///< The kernel's 32-bit counter at the last reading.
  uint64_t drops_ = 0;
  uint64_t truncated_ = 0;
  uint64_t refusals_ = 0;
  uint64_t system_calls_ = 0;
  std::unique_ptr<Scratch> scratch_;
};

/// What to tell the operator when a receive buffer came out smaller than wanted; nothing if it did
/// not. `wanted` as it was asked for, `got` as receive_buffer_bytes() returned it.
std::optional<std::string> receive_buffer_advice(int wanted, int got);

}  // namespace sumcast::net

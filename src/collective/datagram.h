// What travels around a header: where the payload lies, what a datagram costs, and how small
// control datagrams are put together and tagged. Shared by shards and workers.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "auth/counter.h"
#include "auth/tag.h"
#include "net/udp.h"
#include "wire/header.h"

namespace sumcast::collective {

/// Datagrams of rows differ in length, but one system call takes a run of equal ones: neighbours
/// are padded to the longest, as long as that adds at most half to any but the smallest.
class PaddedRun {
 public:
  /// Takes the next datagram's length, or says that it starts another run.
  bool admits(uint32_t bytes) {
    const uint32_t most = std::max(most_, bytes);
    const uint32_t least = std::min(least_, std::max(bytes, kSmall));
    if (count_ > 0 && (2 * most > 3 * least || count_ + 1 > net::segments_max(most))) return false;
    most_ = most, least_ = least, ++count_;
    return true;
  }
  uint32_t count() const { return count_; }
  uint32_t bytes() const { return most_; }  ///< Of each, once padded.

 private:
  static constexpr uint32_t kSmall = 320;  ///< Below this, a datagram's own cost is all there is.
  uint32_t count_ = 0, most_ = 0, least_ = UINT32_MAX;
};

/// The same for compact datagrams, which come in order of their lengths: a run goes on as long as
/// padding those before costs less than another run.
class SortedRun {
 public:
  /// @param ns_per_byte  what a byte takes (core/throughput.h).
  explicit SortedRun(double ns_per_byte) : ns_per_byte_(ns_per_byte) {}
  /// @param bytes  not less than in the call before.
  bool admits(uint32_t bytes) {
    const double padding = ns_per_byte_ * count_ * (bytes - bytes_);
    if (count_ > 0 && (padding > kRunNs || count_ + 1 > net::segments_max(bytes))) return false;
    bytes_ = bytes, ++count_;
    return true;
  }
  uint32_t count() const { return count_; }
  uint32_t bytes() const { return bytes_; }

 private:
  /// Two system calls and a queue or two between them.
  static constexpr double kRunNs = 6000;
  double ns_per_byte_;
  uint32_t count_ = 0, bytes_ = 0;
};

/// How many datagrams are put in order of their lengths at once: what is overtaken so is no later
/// than the shortest reorder window (P6, P7).
class SortedStretch {
 public:
  explicit SortedStretch(double ns_per_byte) : ns_per_byte_(ns_per_byte) {}
  bool admits(uint32_t bytes) {
    if (count_ > 0 && (count_ == net::kSegmentsMax || ns_per_byte_ * bytes_ > kSpanNs))
      return false;
    bytes_ += bytes, ++count_;
    return true;
  }
  uint32_t count() const { return count_; }

 private:
  static constexpr double kSpanNs = 100'000;
  double ns_per_byte_;
  uint32_t count_ = 0, bytes_ = 0;
};

/// `chunk` of kAsk (P6).
enum class Asking : uint32_t {
  kSendAgain = 0,  ///< These contributions are missing here.
  kHasLeft = 1,    ///< These results left before this: what has not come of them was lost.
};

/// Signs what one sender sends, and counts it (P14). Without a key it only counts.
class Signer {
 public:
  Signer(uint16_t sender, std::optional<auth::DatagramKey> key) : sender_(sender) {
    if (key) tagger_.emplace(*key);
  }
  size_t tag_bytes() const { return tagger_ ? wire::kTagBytes : 0; }
  uint16_t sender() const { return sender_; }

  /// Completes `header` (sender and counter), writes it to `header_out` (32 bytes) and, with a key,
  /// the tag over it and `payload` to `tag_out` (16 bytes).
  /// @return the counter, as it travels.
  uint32_t seal(wire::Header header, std::span<const std::byte> payload, std::byte* header_out,
                std::byte* tag_out) {
    header.sender = sender_;
    header.counter = static_cast<uint32_t>(++counter_);
    wire::write(header, header_out);
    if (tagger_) {
      tagger_->sign(sender_, counter_, {header_out, wire::kHeaderBytes}, payload, tag_out);
    }
    return header.counter;
  }

 private:
  uint16_t sender_;
  uint64_t counter_ = 0;
  std::optional<auth::Tagger> tagger_;
};

/// Verifies what one sender sends under one key. Several senders may share a key (shards of a job
/// sign with one downlink key): one verifier per sender all the same, since counters are theirs.
class Verifier {
 public:
  Verifier(uint16_t sender, std::optional<auth::DatagramKey> key) : sender_(sender) {
    if (key) tagger_.emplace(*key);
  }
  size_t tag_bytes() const { return tagger_ ? wire::kTagBytes : 0; }

  /// @param datagram header, payload and tag, at least kHeaderBytes long.
  /// @return true if the tag is the sender's, or if there are no tags.
  bool open(std::span<const std::byte> datagram) {
    if (!tagger_) return true;
    if (datagram.size() < wire::kHeaderBytes + wire::kTagBytes) return false;
    const uint64_t counter = unwrap_.unwrap(wire::peek_counter(datagram.data()));
    const auto body = datagram.first(datagram.size() - wire::kTagBytes);
    if (!tagger_->verify(sender_, counter, body, datagram.data() + body.size())) return false;
    unwrap_.accept(counter);
    return true;
  }

 private:
  uint16_t sender_;
  auth::CounterUnwrap unwrap_;
  std::optional<auth::Tagger> tagger_;
};

/// Bytes of UDP payload that a datagram may have at MTU 1500 over IPv4.
inline constexpr uint32_t kDatagramBytesDefault = 1472;
/// Room for the largest datagram that a path may be probed for (jumbo frames, IPv4).
inline constexpr uint32_t kDatagramBytesMax = 8972;
/// Notes per control datagram: fits the smallest path accepted.
inline constexpr uint32_t kNotesMax = 32;
inline constexpr uint32_t kDatagramBytesMin = 548;  ///< Of the smallest path accepted (MTU 576).
static_assert(wire::kHeaderBytes + wire::kTagBytes + kNotesMax * wire::kNoteBytes <=
              kDatagramBytesMin);

}  // namespace sumcast::collective

// What travels around a header: where the payload lies, what a datagram costs, and how small
// control datagrams are put together and tagged. Shared by shards and workers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "auth/counter.h"
#include "auth/tag.h"
#include "wire/header.h"

namespace sumcast::collective {

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
  void seal(wire::Header header, std::span<const std::byte> payload, std::byte* header_out,
            std::byte* tag_out) {
    header.sender = sender_;
    header.counter = static_cast<uint32_t>(++counter_);
    wire::write(header, header_out);
    if (tagger_) {
      tagger_->sign(sender_, counter_, {header_out, wire::kHeaderBytes}, payload, tag_out);
    }
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

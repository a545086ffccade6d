// What travels between two ranks that exchange messages: headers of 32 bytes, and payloads.
//
//   sender -> receiver   kEager      a small message, payload behind the header
//                        kAnnounce   a large one waits here under `id`; its payload comes when
//                        asked kBody       the payload of message `id`
//                        kExpect    the sender of this waits for a message of `tag`
//   receiver -> sender   kReady      message `id` has a place to go
//                        kCredit     `bytes` of eager payload have been taken
//
// A large message therefore costs one more round trip, and no memory at a receiver that is not
// ready. Small ones may wait at the receiver, up to kEagerWindowBytes of each sender and group: a
// sender that has no credit left announces instead.
//
// Messages may belong to a call that all ranks of a group make, as its n-th (gather, all-to-all).
// Their tag says so, so that ranks which call different things notice (P4):
//
//   bit 63  1 | 62..40  hash of number and text of the call | 39..8  number | 7..0  part of the
//   call
//
// Numbers are little endian, as hosts are throughout (docs/numerics.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace sumcast::mesh {

/// The lane of streams that carry messages. The sender opens them, whatever its rank: one stream
/// for each direction that is used.
inline constexpr uint8_t kMessageLane = 255;

/// Up to so much goes without asking: about what a shaped link carries while a question and its
/// answer would travel.
inline constexpr uint64_t kEagerBytesMax = 64 << 10;
/// Eager payload that may wait at a receiver, for each sender and group.
inline constexpr uint64_t kEagerWindowBytes = 1 << 20;
/// Taken payload is acknowledged in steps of this; less than the window, so that it never stalls.
inline constexpr uint64_t kCreditStepBytes = 256 << 10;

enum class MessageKind : uint32_t {
  kEager = 1,
  kAnnounce = 2,
  kReady = 3,
  kBody = 4,
  kCredit = 5,
  kExpect = 6,
};

inline constexpr bool is_call_tag(uint64_t tag) { return tag >> 63 != 0; }
inline constexpr uint32_t call_number(uint64_t tag) { return static_cast<uint32_t>(tag >> 8); }
/// Tags of one call, whatever their part.
inline constexpr bool is_same_call(uint64_t a, uint64_t b) { return a >> 8 == b >> 8; }
/// What stands for the call where operations have digests: 23 bits of hash, 8 of the number.
inline constexpr uint32_t call_digest(uint64_t tag) {
  return static_cast<uint32_t>((tag >> 40 & 0x7FFFFF) << 8 | (tag >> 8 & 0xFF));
}
/// Of part 0. @param text  what is called, equal on all ranks that call the same.
uint64_t call_tag(uint32_t number, std::string_view text);

struct MessageHeader {
  MessageKind kind = MessageKind::kEager;
  uint32_t check = 0;  ///< Equal at both ends, or they mean different things (kMismatch).
  uint64_t tag = 0;    ///< What a receive is matched by, beside the sender.
  uint64_t bytes = 0;  ///< Of the whole payload; kCredit: of what was taken.
  uint64_t id = 0;     ///< Of an announced message, counted by its sender; 0 if eager.
};
static_assert(sizeof(MessageHeader) == 32 &&
              std::has_unique_object_representations_v<MessageHeader>);

}  // namespace sumcast::mesh

// The header of every datagram: 32 bytes at fixed offsets, so that a switch can parse it.
//
// A datagram is   header (32) | payload (0..n) | tag (16, absent with --insecure).
// This file knows offsets and legal values; it does not know what a receiver does with them
// (core/), nor how the tag is made (auth/). docs/protocol.md section 2 is the normative text.
//
//   0  version:4 kind:4      which protocol, which datagram
//   1  type:4 reduction:4    what the lanes are and how they are combined
//   2  format:4 flags:4      how lanes travel; kFlagQuiet, kFlagRows, kFlagCompact
//   3  epoch                 low 8 bits of the membership epoch
//   4  sender                worker: rank in the job; aggregator: kShardBit | shard
//   6  slot                  slot in the shard's pool of this job
//   8  incarnation           of the job: datagrams of an earlier life never count (P1)
//  12  counter               low 32 bits of the sender's send counter, the tag's nonce (P14)
//  16  phase                 of the slot; version = phase & 1 (P1)
//  20  digest                of the operation (P4)
//  24  chunk                 index among the chunks that this shard owns in this operation
//  28  total | next          contribution: how many chunks this shard owns in the operation;
//                            result: the number it hands out (P7)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/element.h"
#include "base/ids.h"

namespace sumcast::wire {

inline constexpr uint8_t kProtocolVersion = 1;
inline constexpr size_t kHeaderBytes = 32;
inline constexpr size_t kTagBytes = 16;
inline constexpr uint16_t kShardBit = 0x8000;  ///< Set in `sender` by aggregator shards.
static_assert(kHeaderBytes + kTagBytes <= 48);

/// Adding a kind: extend kKindMax, docs/protocol.md section 3, and the receivers in
/// collective/shard_host.cc or collective/engine_receive.cc.
enum class Kind : uint8_t {
  kContribution = 1,  ///< worker -> shard: lanes of one chunk (possibly none)
  kResult = 2,        ///< shard -> workers: the sum of one chunk (lanes, or none if quiet)
  kProbe = 3,         ///< worker -> shard: list of Notes, "I wait for these"
  kGap = 4,           ///< worker -> shard: list of Notes, "I never saw these result numbers"
  kAsk = 5,           ///< shard -> worker: list of Notes, "send these again"
  // 6 is reserved: it was to name the members awaited, and was never sent.
  kHello = 7,      ///< worker -> shard: address proof and path probe
  kChallenge = 8,  ///< shard -> worker: cookie to echo
  kHelloAck = 9,   ///< shard -> worker: this size passed, both ways
  kPing = 10,      ///< worker -> shard: clock reading to be echoed
  kPong = 11,      ///< shard -> worker: that reading
  kTuneIn = 12,    ///< worker -> shard: what multicast did I hear? (P19)
  kTuned = 13,     ///< shard -> worker: to the multicast group, or that it is in use
};
inline constexpr uint8_t kKindMax = 13;
inline constexpr uint8_t kKindReserved = 6;

/// The sender of this contribution has no use for the result's lanes (reduce, reduce-scatter):
/// it is sent an empty result.
inline constexpr uint8_t kFlagQuiet = 1;
/// The payload is rows of a cell (numeric/rows.h), not all of a chunk's lanes.
inline constexpr uint8_t kFlagRows = 2;
/// The payload is a chunk's lanes without its blocks of zeros (wire/compact.h).
inline constexpr uint8_t kFlagCompact = 4;

struct Header {
  Kind kind = Kind::kContribution;
  ElementType type = ElementType::kF32;
  Reduction reduction = Reduction::kSum;
  WireFormat format = WireFormat::kNative;
  uint8_t flags = 0;
  uint8_t epoch = 0;
  uint16_t sender = 0;
  uint16_t slot = 0;
  uint32_t incarnation = 0;
  uint32_t counter = 0;
  uint32_t phase = 0;
  uint32_t digest = 0;
  uint32_t chunk = 0;
  uint32_t total_or_next = 0;
};

/// Why bytes are not a header; each has a counter.
enum class ParseError : uint8_t { kNone, kTooShort, kVersion, kKind, kEnumerator };

/// Reads and checks a header. Every enumerator in the result is legal; ids are not yet known to
/// exist. `datagram` may hold payload and tag behind it.
ParseError parse(std::span<const std::byte> datagram, Header& out);

/// Writes 32 bytes.
void write(const Header& header, std::byte* out);

/// The job a datagram claims to belong to; needs kHeaderBytes. Lets a receiver find the key
/// before it believes anything.
uint32_t peek_incarnation(const std::byte* datagram);
uint16_t peek_sender(const std::byte* datagram);
uint32_t peek_counter(const std::byte* datagram);

/// Overwrites the counter of a header already written.
void patch_counter(std::byte* header, uint32_t counter);

/// One entry of a probe, gap or ask: 12 bytes.
struct Note {
  uint16_t slot = 0;
  uint32_t phase_or_number = 0;
  uint32_t digest = 0;
};
inline constexpr size_t kNoteBytes = 12;
void write_note(const Note& note, std::byte* out);
Note read_note(const std::byte* in);

}  // namespace sumcast::wire

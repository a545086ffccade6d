#include "wire/header.h"

#include "wire/bytes.h"

namespace sumcast::wire {
namespace {

constexpr size_t kVersionKindAt = 0, kTypeReductionAt = 1, kFormatFlagsAt = 2, kEpochAt = 3;
constexpr size_t kSenderAt = 4, kSlotAt = 6, kIncarnationAt = 8, kCounterAt = 12, kPhaseAt = 16;
constexpr size_t kDigestAt = 20, kChunkAt = 24, kTotalAt = 28;
static_assert(kTotalAt + 4 == kHeaderBytes);

constexpr uint8_t high(std::byte b) { return static_cast<uint8_t>(b) >> 4; }
constexpr uint8_t low(std::byte b) { return static_cast<uint8_t>(b) & 0x0F; }
constexpr std::byte nibbles(unsigned high_half, unsigned low_half) {
  return static_cast<std::byte>((high_half << 4) | (low_half & 0x0F));
}

}  // namespace

ParseError parse(std::span<const std::byte> datagram, Header& out) {
  if (datagram.size() < kHeaderBytes) return ParseError::kTooShort;
  const std::byte* at = datagram.data();
  if (high(at[kVersionKindAt]) != kProtocolVersion) return ParseError::kVersion;
  const uint8_t kind = low(at[kVersionKindAt]);
  if (kind == 0 || kind == kKindReserved || kind > kKindMax) return ParseError::kKind;
  const uint8_t type = high(at[kTypeReductionAt]), reduction = low(at[kTypeReductionAt]);
  const uint8_t format = high(at[kFormatFlagsAt]);
  if (type >= kElementTypes || reduction >= kReductions || format >= kWireFormats) {
    return ParseError::kEnumerator;
  }
  out.kind = static_cast<Kind>(kind);
  out.type = static_cast<ElementType>(type);
  out.reduction = static_cast<Reduction>(reduction);
  out.format = static_cast<WireFormat>(format);
  out.flags = low(at[kFormatFlagsAt]);
  out.epoch = static_cast<uint8_t>(at[kEpochAt]);
  out.sender = load_big<uint16_t>(at + kSenderAt);
  out.slot = load_big<uint16_t>(at + kSlotAt);
  out.incarnation = load_big<uint32_t>(at + kIncarnationAt);
  out.counter = load_big<uint32_t>(at + kCounterAt);
  out.phase = load_big<uint32_t>(at + kPhaseAt);
  out.digest = load_big<uint32_t>(at + kDigestAt);
  out.chunk = load_big<uint32_t>(at + kChunkAt);
  out.total_or_next = load_big<uint32_t>(at + kTotalAt);
  return ParseError::kNone;
}

void write(const Header& header, std::byte* out) {
  out[kVersionKindAt] = nibbles(kProtocolVersion, static_cast<unsigned>(header.kind));
  out[kTypeReductionAt] =
      nibbles(static_cast<unsigned>(header.type), static_cast<unsigned>(header.reduction));
  out[kFormatFlagsAt] = nibbles(static_cast<unsigned>(header.format), header.flags);
  out[kEpochAt] = static_cast<std::byte>(header.epoch);
  store_big(out + kSenderAt, header.sender);
  store_big(out + kSlotAt, header.slot);
  store_big(out + kIncarnationAt, header.incarnation);
  store_big(out + kCounterAt, header.counter);
  store_big(out + kPhaseAt, header.phase);
  store_big(out + kDigestAt, header.digest);
  store_big(out + kChunkAt, header.chunk);
  store_big(out + kTotalAt, header.total_or_next);
}

uint32_t peek_incarnation(const std::byte* datagram) {
  return load_big<uint32_t>(datagram + kIncarnationAt);
}
uint16_t peek_sender(const std::byte* datagram) { return load_big<uint16_t>(datagram + kSenderAt); }
uint32_t peek_counter(const std::byte* datagram) {
  return load_big<uint32_t>(datagram + kCounterAt);
}
void patch_counter(std::byte* header, uint32_t counter) { store_big(header + kCounterAt, counter); }

void write_note(const Note& note, std::byte* out) {
  store_big<uint16_t>(out, note.slot);
  store_big<uint16_t>(out + 2, 0);
  store_big(out + 4, note.phase_or_number);
  store_big(out + 8, note.digest);
}

Note read_note(const std::byte* in) {
  return Note{load_big<uint16_t>(in), load_big<uint32_t>(in + 4), load_big<uint32_t>(in + 8)};
}

}  // namespace sumcast::wire

// Any bytes as a datagram: what parses is legal, and writing it gives the same bytes again.
#include <algorithm>
#include <array>

#include "base/assert.h"
#include "fuzz/targets.h"
#include "wire/header.h"

namespace sumcast::fuzz {

void parse(std::span<const uint8_t> bytes) {
  const auto datagram = std::as_bytes(bytes);
  wire::Header header;
  const wire::ParseError error = wire::parse(datagram, header);
  if (bytes.size() < wire::kHeaderBytes) {
    SUMCAST_ASSERT(error == wire::ParseError::kTooShort);
    return;
  }
  if (error != wire::ParseError::kNone) return;
  SUMCAST_ASSERT(static_cast<uint8_t>(header.kind) >= 1);
  SUMCAST_ASSERT(static_cast<uint8_t>(header.kind) <= wire::kKindMax);
  SUMCAST_ASSERT(static_cast<uint8_t>(header.type) < kElementTypes);
  SUMCAST_ASSERT(static_cast<uint8_t>(header.reduction) < kReductions);
  SUMCAST_ASSERT(static_cast<uint8_t>(header.format) < kWireFormats);
  SUMCAST_ASSERT(header.incarnation == wire::peek_incarnation(datagram.data()));
  SUMCAST_ASSERT(header.sender == wire::peek_sender(datagram.data()));
  SUMCAST_ASSERT(header.counter == wire::peek_counter(datagram.data()));
  std::array<std::byte, wire::kHeaderBytes> written;
  wire::write(header, written.data());
  SUMCAST_ASSERT(std::ranges::equal(written, datagram.first(wire::kHeaderBytes)));

  for (auto payload = datagram.subspan(wire::kHeaderBytes); payload.size() >= wire::kNoteBytes;
       payload = payload.subspan(wire::kNoteBytes)) {
    const wire::Note note = wire::read_note(payload.data());
    std::array<std::byte, wire::kNoteBytes> again;
    wire::write_note(note, again.data());
    const wire::Note same = wire::read_note(again.data());
    SUMCAST_ASSERT(same.slot == note.slot);
    SUMCAST_ASSERT(same.phase_or_number == note.phase_or_number);
    SUMCAST_ASSERT(same.digest == note.digest);
  }
}

}  // namespace sumcast::fuzz

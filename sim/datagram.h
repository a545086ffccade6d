// A datagram as the simulator carries it: the header's fields, a number instead of lanes, and
// notes. It is never written to bytes; wire/ has tests of its own.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/time.h"
#include "wire/header.h"

namespace sumcast::sim {

struct Datagram {
  wire::Header header;            ///< `sender` is not used: member and shard stand below.
  uint16_t member = 0;            ///< The worker's end.
  uint16_t shard = 0;             ///< The aggregator's end.
  uint64_t content = 0;           ///< Instead of lanes, see tokens.h.
  std::vector<wire::Note> notes;  ///< Of probes, gaps and asks.
  uint32_t bytes = 0;             ///< On the link, all headers included.
};

/// Ethernet, IPv4 and UDP headers in front of ours.
inline constexpr uint32_t kLowerHeaderBytes = 14 + 20 + 8;
/// The most notes that fit one 1,500-byte packet with our header and tag.
inline constexpr size_t kNotesPerDatagram =
    (1500 - 28 - wire::kHeaderBytes - wire::kTagBytes) / wire::kNoteBytes;

constexpr uint32_t bytes_on_link(size_t payload_bytes) {
  return static_cast<uint32_t>(kLowerHeaderBytes + wire::kHeaderBytes + payload_bytes +
                               wire::kTagBytes);
}

/// Where a link ends.
class Sink {
 public:
  virtual ~Sink() = default;
  /// Datagrams that arrive at the same instant, in order; valid during the call.
  virtual void on_datagrams(std::span<const Datagram> datagrams, Instant now) = 0;
};

}  // namespace sumcast::sim

#include "net/pcap.h"

#include <netinet/in.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>
#include <vector>

#include "base/assert.h"
#include "net/descriptor.h"
#include "net/udp.h"

namespace sumcast::net {
namespace {

// The file's own fields are in the writer's byte order; readers tell it from the magic number. This
// one says that fractions of a second are nanoseconds.
constexpr uint32_t kMagicNanoseconds = 0xA1B23C4D;
constexpr uint32_t kLinkTypeRaw = 101;  // Packets begin with an IPv4 or IPv6 header.
constexpr uint32_t kSnapLength = 65575;

struct FileHeader {
  uint32_t magic = kMagicNanoseconds;
  uint16_t major = 2, minor = 4;
  uint32_t zone = 0, accuracy = 0;
  uint32_t snap_length = kSnapLength;
  uint32_t link_type = kLinkTypeRaw;
};
static_assert(sizeof(FileHeader) == 24);

struct RecordHeader {
  uint32_t seconds, nanoseconds;
  uint32_t captured_bytes, original_bytes;
};
static_assert(sizeof(RecordHeader) == 16);

constexpr uint8_t kProtocolUdp = 17;
constexpr size_t kUdpHeaderBytes = 8;

/// The Internet checksum's running sum: 16-bit big-endian words, an odd byte padded with zero.
uint32_t add_words(std::span<const uint8_t> bytes, uint32_t sum) {
  for (size_t i = 0; i < bytes.size(); i += 2) {
    const uint32_t low = i + 1 < bytes.size() ? bytes[i + 1] : 0;
    sum += uint32_t{bytes[i]} << 8 | low;
    sum = (sum & 0xFFFF) + (sum >> 16);
  }
  return sum;
}

uint16_t finish(uint32_t sum) { return static_cast<uint16_t>(~sum & 0xFFFF); }

/// Appends big-endian fields to a packet.
class PacketWriter {
 public:
  explicit PacketWriter(size_t bytes) { bytes_.reserve(bytes); }

  void u8(uint32_t value) { bytes_.push_back(static_cast<uint8_t>(value)); }
  void u16(size_t value) {
    u8(static_cast<uint32_t>(value >> 8 & 0xFF));
    u8(static_cast<uint32_t>(value & 0xFF));
  }
  void raw(const void* data, size_t count) {
    const auto* begin = static_cast<const uint8_t*>(data);
    bytes_.insert(bytes_.end(), begin, begin + count);
  }
  void set_u16(size_t at, uint16_t value) {
    bytes_[at] = static_cast<uint8_t>(value >> 8);
    bytes_[at + 1] = static_cast<uint8_t>(value & 0xFF);
  }
  std::span<const uint8_t> bytes() const { return bytes_; }

 private:
  std::vector<uint8_t> bytes_;
};

std::span<const uint8_t> address_bytes(const Endpoint& endpoint) {
  if (endpoint.family() == Family::kIpv4) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(endpoint.raw());
    return {reinterpret_cast<const uint8_t*>(&v4->sin_addr), 4};
  }
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(endpoint.raw());
  return {v6->sin6_addr.s6_addr, 16};
}

void put_ip_header(PacketWriter& packet, const Endpoint& from, const Endpoint& to,
                   size_t udp_bytes) {
  const auto source = address_bytes(from), destination = address_bytes(to);
  if (from.family() == Family::kIpv4) {
    packet.u8(0x45);  // Version 4, five words of header.
    packet.u8(0);
    packet.u16(20 + udp_bytes);
    packet.u16(0);       // Identification: unused where nothing is fragmented.
    packet.u16(0x4000);  // Don't fragment.
    packet.u8(64);
    packet.u8(kProtocolUdp);
    packet.u16(0);  // Checksum, below.
  } else {
    packet.u8(0x60);
    packet.u8(0);
    packet.u16(0);
    packet.u16(udp_bytes);
    packet.u8(kProtocolUdp);
    packet.u8(64);
  }
  packet.raw(source.data(), source.size());
  packet.raw(destination.data(), destination.size());
  if (from.family() == Family::kIpv4) packet.set_u16(10, finish(add_words(packet.bytes(), 0)));
}

void put_udp(PacketWriter& packet, const Endpoint& from, const Endpoint& to,
             std::span<const std::byte> datagram) {
  const size_t begin = packet.bytes().size();
  const size_t udp_bytes = kUdpHeaderBytes + datagram.size();
  packet.u16(from.port());
  packet.u16(to.port());
  packet.u16(udp_bytes);
  packet.u16(0);  // Checksum, below.
  packet.raw(datagram.data(), datagram.size());
  // The pseudo header: both addresses, the length and the protocol.
  uint32_t sum = static_cast<uint32_t>(udp_bytes) + kProtocolUdp;
  sum = add_words(address_bytes(from), sum);
  sum = add_words(address_bytes(to), sum);
  const uint16_t checksum = finish(add_words(packet.bytes().subspan(begin), sum));
  packet.set_u16(begin + 6, checksum == 0 ? 0xFFFF : checksum);  // 0 would mean "none".
}

}  // namespace

Result<PcapWriter> PcapWriter::create(const std::string& path) {
  File file(std::fopen(path.c_str(), "wbe"), &std::fclose);
  if (file == nullptr) {
    return fail(ErrorCode::kInvalidArgument,
                "cannot write " + path + ": " + std::system_category().message(errno));
  }
  const FileHeader header;
  std::fwrite(&header, sizeof header, 1, file.get());
  const auto wall =
      std::chrono::duration_cast<Duration>(std::chrono::system_clock::now().time_since_epoch());
  return PcapWriter(std::move(file), path, wall - Duration{monotonic_now().ns});
}

void PcapWriter::write(Instant at, const Endpoint& from, const Endpoint& to,
                       std::span<const std::byte> datagram) {
  SUMCAST_ASSERT(from.is_set() && from.family() == to.family());
  SUMCAST_ASSERT(datagram.size() <= kPayloadBytesMax);
  const size_t udp_bytes = kUdpHeaderBytes + datagram.size();
  PacketWriter packet(40 + udp_bytes);
  put_ip_header(packet, from, to, udp_bytes);
  put_udp(packet, from, to, datagram);

  const int64_t wall_ns = at.ns + wall_offset_.count();
  const auto bytes = static_cast<uint32_t>(packet.bytes().size());
  const RecordHeader header{static_cast<uint32_t>(wall_ns / 1'000'000'000),
                            static_cast<uint32_t>(wall_ns % 1'000'000'000), bytes, bytes};
  // Errors stick to the stream; flush() reports them.
  std::fwrite(&header, sizeof header, 1, file_.get());
  std::fwrite(packet.bytes().data(), 1, bytes, file_.get());
  ++datagrams_;
}

Result<void> PcapWriter::flush() {
  if (std::fflush(file_.get()) == 0 && std::ferror(file_.get()) == 0) return {};
  return fail(system_error("cannot write " + path_, errno));
}

}  // namespace sumcast::net

#include "cli/bench_bounds.h"

#include "numeric/codec.h"
#include "numeric/fixed.h"
#include "wire/header.h"

namespace sumcast::cli {
namespace {

constexpr uint32_t kLinkHeaderBytes = 14 + 20 + 8;  // Ethernet, IPv4, UDP.
constexpr double kTcpOverhead = 1514.0 / 1448.0;

uint64_t frames_of(ElementType type, WireFormat wire, uint64_t elements, uint64_t lanes_max,
                   bool tagged) {
  const auto payload = [&](uint64_t lanes) {
    return static_cast<uint32_t>(numeric::payload_bytes(type, wire, lanes));
  };
  const uint64_t whole = elements / lanes_max;
  const uint64_t rest = elements % lanes_max;
  uint64_t bytes = whole * frame_bytes(payload(lanes_max), tagged);
  if (rest != 0) bytes += frame_bytes(payload(rest), tagged);
  return bytes;
}

/// Multiples of the tensor through the busiest direction of the busiest link.
double tensor_crossings(const ContenderSpec& contender, Collective collective, double n) {
  using Kind = ContenderSpec::Kind;
  const double others = (n - 1) / n;
  const bool server = contender.needs_server();
  const bool direct =
      contender.kind == Kind::kAlgorithm && contender.algorithm == Algorithm::kDirect;
  const bool between_hosts =
      contender.kind != Kind::kWire && !server && !direct && !contender.needs_daemon();
  switch (collective) {
    case Collective::kAllReduce:
      return server ? n : direct || between_hosts ? 2 * others : 1.0;
    case Collective::kReduce:
      return server ? n : direct ? n - 1 : 1.0;
    case Collective::kBroadcast:
      return server || direct ? n - 1 : 1.0;
    case Collective::kAllGather:
      return server ? n - 1 : others;
    case Collective::kReduceScatter:
      return server ? n : direct || between_hosts ? others : 1.0;
    case Collective::kBarrier:
      break;
  }
  return 0.0;
}

}  // namespace

uint64_t frame_bytes(uint32_t payload_bytes, bool tagged) {
  return kLinkHeaderBytes + wire::kHeaderBytes + payload_bytes + (tagged ? wire::kTagBytes : 0);
}

uint64_t tensor_frame_bytes(const BenchCase& bench, WireFormat wire, const DatagramShape& shape) {
  const uint64_t elements = bench.bytes / element_bytes(bench.type);
  const uint64_t lanes_max = numeric::lanes_per_chunk(bench.type, wire, shape.payload_bytes_max);
  uint64_t bytes = frames_of(bench.type, wire, elements, lanes_max, shape.tagged);
  if (wire == WireFormat::kFixed) {
    const uint64_t codes = numeric::block_count(elements) * sizeof(numeric::BlockCode);
    const uint64_t codes_max =
        numeric::lanes_per_chunk(ElementType::kU8, WireFormat::kNative, shape.payload_bytes_max);
    bytes += frames_of(ElementType::kU8, WireFormat::kNative, codes, codes_max, shape.tagged);
  }
  return bytes;
}

std::optional<double> bound_us(const ContenderSpec& contender, const BenchCase& one,
                               uint32_t workers, uint32_t ranks_per_host,
                               uint64_t rate_bits_per_second, const DatagramShape& shape) {
  const uint32_t hosts = workers / ranks_per_host;
  BenchCase bench = one;
  if (rate_bits_per_second == 0 || bench.bytes == 0) return std::nullopt;
  if (ranks_per_host > 1 && hosts == 1) return std::nullopt;
  if (contender.is_canonical() && one.density_millionths < BenchCase::kDense) return std::nullopt;
  const bool half = bench.type == ElementType::kF16 || bench.type == ElementType::kBF16;
  const bool rounds = bench.reduction == Reduction::kSum || bench.reduction == Reduction::kAvg ||
                      bench.reduction == Reduction::kProduct;
  if (ranks_per_host > 1 && half && rounds && contender.is_canonical()) {
    bench.type = ElementType::kF32;
    bench.bytes *= 2;
  }
  const bool datagrams = contender.kind == ContenderSpec::Kind::kWire || contender.is_canonical();
  const WireFormat wire = contender.is_canonical() ? bench.wire : WireFormat::kNative;
  const double once = datagrams ? static_cast<double>(tensor_frame_bytes(bench, wire, shape))
                                : static_cast<double>(bench.bytes) * kTcpOverhead;
  const double bytes = once * tensor_crossings(contender, bench.collective, hosts);
  return bytes * 8e6 / static_cast<double>(rate_bits_per_second);
}

}  // namespace sumcast::cli

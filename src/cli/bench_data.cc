#include "cli/bench_data.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/assert.h"
#include "numeric/codec.h"
#include "numeric/fixed.h"
#include "numeric/fold.h"

namespace sumcast::cli {
namespace {

constexpr uint64_t kGolden = 0x9E3779B97F4A7C15u;
constexpr uint64_t kPieceBytes = 64;  // A row of an embedding: 16 floats.

/// A random number that belongs to one element of one rank: SplitMix64's finaliser over a counter,
/// so that any element can be made without those before it.
uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

struct FloatLayout {
  uint32_t exponent_bits, mantissa_bits;
};

/// Bits of a finite float. One element in four (the same on all ranks) has any exponent, the
/// others one within 2^-8 .. 2^7, where addends overlap and every addition rounds.
uint64_t float_bits(FloatLayout layout, uint64_t random, uint64_t index) {
  const uint64_t exponent_max = (uint64_t{1} << layout.exponent_bits) - 1;  // Infinity and NaN.
  const uint64_t bias = exponent_max / 2;
  const uint64_t draw = random >> 53;  // 11 bits, independent of the mantissa of f32 and narrower.
  const uint64_t exponent =
      index % 4 == 0 ? draw % exponent_max : bias - std::min<uint64_t>(8, bias - 1) + draw % 16;
  const uint64_t mantissa = random & ((uint64_t{1} << layout.mantissa_bits) - 1);
  const uint64_t sign = random >> 52 & 1;
  return (sign << layout.exponent_bits | exponent) << layout.mantissa_bits | mantissa;
}

template <typename T>
void store(std::byte* out, uint64_t i, T value) {
  std::memcpy(out + i * sizeof(T), &value, sizeof(T));
}

/// Largest integer up to which all integers are exact.
double exact_limit(ElementType type) {
  switch (type) {
    case ElementType::kF16:
      return 2048;
    case ElementType::kBF16:
      return 256;
    case ElementType::kF64:
      return 0x1p53;
    default:
      return 0x1p24;
  }
}

/// Floats whose sums and products are exact in any order: addends below limit / world, factors of
/// which one rank alone has a 2 and the others 1.
double exact_value(const BenchCase& bench, uint32_t world, uint32_t rank, uint64_t index,
                   uint64_t random) {
  if (bench.reduction == Reduction::kProduct) return index % world == rank ? 2.0 : 1.0;
  const auto span = static_cast<uint64_t>(exact_limit(bench.type) / world);
  return static_cast<double>(random % std::clamp<uint64_t>(span, 2, 64));
}

uint16_t f16_bits(double small_integer) {  // 0..2048, exact.
  if (small_integer == 0) return 0;
  const uint64_t bits = std::bit_cast<uint64_t>(small_integer);
  const auto exponent = static_cast<int>(bits >> 52) - 1023 + 15;
  return static_cast<uint16_t>(exponent << 10 | static_cast<int>(bits >> 42 & 0x3FF));
}

uint16_t bf16_bits(double small_integer) {  // 0..256, exact.
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(small_integer)) >> 16);
}

}  // namespace

uint64_t digest_of(const std::byte* data, size_t bytes) {
  // Four chains, because one would wait for its own multiplication at every word.
  uint64_t chains[4] = {1, 2, 3, 4};
  size_t at = 0;
  for (; at + 32 <= bytes; at += 32) {
    uint64_t words[4];
    std::memcpy(words, data + at, 32);
    for (int i = 0; i < 4; ++i) {
      chains[i] = std::rotl((chains[i] ^ words[i]) * kGolden, 29);
    }
  }
  uint64_t rest = bytes;
  for (; at < bytes; ++at) rest = mix(rest ^ static_cast<uint64_t>(data[at])) + kGolden;
  for (const uint64_t chain : chains) rest = mix(rest ^ chain) + kGolden;
  return rest;
}

BenchData::BenchData(const BenchCase& bench, bool canonical, uint32_t world, uint64_t seed,
                     uint32_t ranks_per_host)
    : bench_(bench),
      canonical_(canonical),
      world_(world),
      ranks_per_host_(ranks_per_host),
      seed_(mix(seed + kGolden)) {}

uint64_t BenchData::input_elements() const {
  return bench_.collective == Collective::kReduceScatter ? bench_.count * world_ : bench_.count;
}

uint64_t BenchData::output_elements() const {
  return bench_.collective == Collective::kAllGather ? bench_.count * world_ : bench_.count;
}

/// Pieces are drawn one by one, so that any element can be made without those before it.
bool BenchData::is_in_zero_piece(uint64_t base, uint64_t piece) const {
  const uint64_t draw = mix(mix(base ^ kGolden) + piece * kGolden);
  return draw % BenchCase::kDense >= bench_.density_millionths;
}

void BenchData::fill(uint32_t rank, uint64_t first, uint64_t count, std::byte* out) const {
  const uint64_t base = seed_ + (uint64_t{rank} << 40) * kGolden;
  const auto each = [&](auto make) {
    using Value = decltype(make(uint64_t{}, uint64_t{}));
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t index = first + i;
      const bool zero = bench_.density_millionths < BenchCase::kDense &&
                        is_in_zero_piece(base, index * sizeof(Value) / kPieceBytes);
      store(out, i, zero ? Value{} : make(mix(base + index * kGolden), index));
    }
  };
  const bool exact = !canonical_ && reduces(bench_.collective);
  const auto value = [&](uint64_t random, uint64_t index) {
    return exact_value(bench_, world_, rank, index, random);
  };
  switch (bench_.type) {
    case ElementType::kF32:
      if (exact)
        return each([&](uint64_t r, uint64_t i) { return static_cast<float>(value(r, i)); });
      return each([](uint64_t r, uint64_t i) {
        return static_cast<uint32_t>(float_bits({8, 23}, r, i));
      });
    case ElementType::kF64:
      if (exact) return each(value);
      return each([](uint64_t r, uint64_t i) { return float_bits({11, 52}, r, i); });
    case ElementType::kF16:
      if (exact) return each([&](uint64_t r, uint64_t i) { return f16_bits(value(r, i)); });
      return each([](uint64_t r, uint64_t i) {
        return static_cast<uint16_t>(float_bits({5, 10}, r, i));
      });
    case ElementType::kBF16:
      if (exact) return each([&](uint64_t r, uint64_t i) { return bf16_bits(value(r, i)); });
      return each([](uint64_t r, uint64_t i) {
        return static_cast<uint16_t>(float_bits({8, 7}, r, i));
      });
    case ElementType::kI64:  // Integers wrap, in any order alike.
      return each([](uint64_t r, uint64_t) { return r; });
    case ElementType::kI32:
      return each([](uint64_t r, uint64_t) { return static_cast<uint32_t>(r); });
    case ElementType::kI16:
      return each([](uint64_t r, uint64_t) { return static_cast<uint16_t>(r); });
    case ElementType::kI8:
    case ElementType::kU8:
      return each([](uint64_t r, uint64_t) { return static_cast<uint8_t>(r); });
    case ElementType::kBool:
      return each([](uint64_t r, uint64_t) { return static_cast<uint8_t>(r >> 60 & 1); });
  }
}

void BenchData::reduce_block(uint64_t first, uint64_t count, std::byte* out) const {
  const size_t bytes = count * element_bytes(bench_.type);
  std::vector<std::byte> inputs(bytes * world_);
  std::vector<const std::byte*> sources(world_);
  for (uint32_t rank = 0; rank < world_; ++rank) {
    std::byte* const place = inputs.data() + rank * bytes;
    fill(rank, first, count, place);
    sources[rank] = place;
  }
  numeric::fold(bench_.type, bench_.reduction, sources.data(), world_, count, world_, out);
}

void BenchData::reduce_encoded(uint64_t first, uint64_t count, std::byte* out) const {
  using numeric::BlockCode;
  const bool fixed = bench_.wire == WireFormat::kFixed;
  const size_t bytes = numeric::payload_bytes(ElementType::kF32, bench_.wire, count);
  std::vector<float> lanes(count);
  // What a host's ranks have added up is divided before it is encoded (N10).
  const bool averages = bench_.reduction == Reduction::kAvg && ranks_per_host_ == 1;
  const auto contribute = [&](uint32_t host) {
    fill_host(host, first, count, ElementType::kF32, true,
              reinterpret_cast<std::byte*>(lanes.data()));
  };
  std::vector<BlockCode> codes(numeric::block_count(count)), own(codes.size());
  for (uint32_t host = 0; fixed && host < hosts(); ++host) {
    contribute(host);
    numeric::block_codes(lanes.data(), count, own.data());
    for (size_t i = 0; i < codes.size(); ++i) {
      codes[i].exponent = std::max(codes[i].exponent, own[i].exponent);
      codes[i].nonfinite = std::max(codes[i].nonfinite, own[i].nonfinite);
    }
  }
  std::vector<std::byte> payloads(bytes * hosts()), sum(bytes);
  std::vector<const std::byte*> sources(hosts());
  for (uint32_t host = 0; host < hosts(); ++host) {
    std::byte* const place = payloads.data() + host * bytes;
    contribute(host);
    if (fixed) {
      numeric::encode_fixed(lanes.data(), count, 0, codes.data(), hosts(), place);
    } else {
      numeric::encode(bench_.wire, lanes.data(), count, place);
    }
    sources[host] = place;
  }
  const bool sums = fixed || (bench_.reduction == Reduction::kAvg && !averages);
  const Reduction reduction = sums ? Reduction::kSum : bench_.reduction;
  numeric::fold_encoded(bench_.wire, reduction, sources.data(), hosts(), count, hosts(),
                        sum.data());
  if (fixed) {
    numeric::decode_fixed(sum.data(), count, 0, codes.data(), hosts(), averages, lanes.data());
  } else {
    numeric::decode(bench_.wire, sum.data(), count, lanes.data());
  }
  std::memcpy(out, lanes.data(), count * sizeof(float));
}

void BenchData::expect_block(uint64_t first, uint64_t count, std::byte* out) const {
  const size_t width = element_bytes(bench_.type);
  switch (bench_.collective) {
    case Collective::kBroadcast:
      return fill(bench_.root, first, count, out);
    case Collective::kAllGather:
      for (uint64_t i = 0; i < count;) {
        const uint64_t part = (first + i) / bench_.count;
        const uint64_t offset = (first + i) % bench_.count;
        const uint64_t here = std::min(count - i, bench_.count - offset);
        fill(static_cast<uint32_t>(part), offset, here, out + i * width);
        i += here;
      }
      return;
    case Collective::kReduceScatter:
      first += bench_.count * rank_;
      [[fallthrough]];
    case Collective::kAllReduce:
    case Collective::kReduce:
      if (!canonical_ || (ranks_per_host_ > 1 && hosts() == 1))
        return reduce_block(first, count, out);
      if (bench_.wire != WireFormat::kNative) return reduce_encoded(first, count, out);
      if (ranks_per_host_ > 1) return reduce_tree(first, count, out);
      return reduce_block(first, count, out);
    case Collective::kBarrier:
      return;
  }
}

void BenchData::expect(uint32_t rank) {
  rank_ = rank;
  digests_.clear();
  const uint64_t total = output_elements();
  std::vector<std::byte> block(std::min(total, kBlockElements) * element_bytes(bench_.type));
  for (uint64_t first = 0; first < total; first += kBlockElements) {
    const uint64_t count = std::min(kBlockElements, total - first);
    expect_block(first, count, block.data());
    digests_.push_back(digest_of(block.data(), count * element_bytes(bench_.type)));
  }
}

uint64_t BenchData::count_wrong(const std::byte* output) const {
  const size_t width = element_bytes(bench_.type);
  const uint64_t total = output_elements();
  SUMCAST_ASSERT(digests_.size() == (total + kBlockElements - 1) / kBlockElements);
  uint64_t wrong = 0;
  std::vector<std::byte> block;
  for (uint64_t b = 0; b < digests_.size(); ++b) {
    const uint64_t first = b * kBlockElements;
    const uint64_t count = std::min(kBlockElements, total - first);
    const std::byte* const got = output + first * width;
    if (digest_of(got, count * width) == digests_[b]) continue;
    block.resize(count * width);
    expect_block(first, count, block.data());
    for (uint64_t i = 0; i < count; ++i) {
      if (std::memcmp(got + i * width, block.data() + i * width, width) != 0) ++wrong;
    }
  }
  return wrong;
}

}  // namespace sumcast::cli

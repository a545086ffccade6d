#include "acceptance/tensor.h"

#include <openssl/evp.h>
#include <cstdlib>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/assert.h"
#include "base/prng.h"

namespace sumcast::acceptance {
namespace {

/// A bfloat16 as it lies in memory.
struct Bf16 {
  uint16_t bits;
};
struct Bool {
  uint8_t byte;
};

float widen(Bf16 x) { return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16); }
float widen(_Float16 x) { return static_cast<float>(x); }
float widen(float x) { return x; }
double widen(double x) { return x; }

template <typename T, typename Wide>
T narrow(Wide x) {
  if constexpr (std::is_same_v<T, Bf16>) {
    if (std::isnan(x)) return {0x7FC0};
    const uint32_t bits = std::bit_cast<uint32_t>(x);
    // To nearest, ties to even: half of the last place kept, less one if that place is even.
    return {static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16)};
  } else {
    if (std::isnan(x)) return static_cast<T>(std::numeric_limits<Wide>::quiet_NaN());
    return static_cast<T>(x);
  }
}

template <typename T>
T load(const std::byte* from, uint64_t index) {
  T value;
  std::memcpy(&value, from + index * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void store(std::byte* to, uint64_t index, T value) {
  std::memcpy(to + index * sizeof(T), &value, sizeof(T));
}

/// N5: NaN wins, -0 < +0.
template <typename Wide>
Wide smaller(Wide a, Wide b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<Wide>::quiet_NaN();
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}

template <typename T>
T fold_float(Reduction reduction, std::span<const T> x) {
  auto sum = widen(x[0]);
  for (size_t k = 1; k < x.size(); ++k) {
    const auto next = widen(x[k]);
    switch (reduction) {
      case Reduction::kProduct:
        sum *= next;
        break;
      case Reduction::kMin:
        sum = smaller(sum, next);
        break;
      case Reduction::kMax:
        sum = -smaller(-sum, -next);
        break;
      default:
        sum += next;
    }
  }
  if (reduction == Reduction::kAvg) sum /= static_cast<decltype(sum)>(x.size());
  return narrow<T>(sum);
}

template <typename T>
T fold_integer(Reduction reduction, std::span<const T> x) {
  using Unsigned = std::make_unsigned_t<T>;
  auto sum = static_cast<uint64_t>(x[0]);
  for (size_t k = 1; k < x.size(); ++k) {
    const auto next = static_cast<uint64_t>(x[k]);
    const auto so_far = static_cast<T>(static_cast<Unsigned>(sum));
    switch (reduction) {
      case Reduction::kProduct:
        sum *= next;
        break;
      case Reduction::kMin:
        sum = static_cast<uint64_t>(std::min(so_far, x[k]));
        break;
      case Reduction::kMax:
        sum = static_cast<uint64_t>(std::max(so_far, x[k]));
        break;
      case Reduction::kAnd:
        sum &= next;
        break;
      case Reduction::kOr:
        sum |= next;
        break;
      case Reduction::kXor:
        sum ^= next;
        break;
      default:
        sum += next;
    }
  }
  const auto wrapped = static_cast<T>(static_cast<Unsigned>(sum));
  if (reduction != Reduction::kAvg) return wrapped;
  using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
  return static_cast<T>(static_cast<Wide>(wrapped) / static_cast<Wide>(x.size()));
}

Bool fold_bool(Reduction reduction, std::span<const Bool> x) {
  size_t truths = 0;
  for (const Bool one : x) truths += one.byte != 0 ? 1 : 0;
  switch (reduction) {
    case Reduction::kSum:
    case Reduction::kOr:
    case Reduction::kMax:
      return {truths > 0};
    case Reduction::kXor:
      return {truths % 2 == 1};
    default:
      return {truths == x.size()};
  }
}

template <typename T>
void reduce_all(Reduction reduction, std::span<const std::vector<std::byte>> sources,
                std::vector<std::byte>& out) {
  std::vector<T> column(sources.size());
  for (uint64_t i = 0; i < out.size() / sizeof(T); ++i) {
    for (size_t k = 0; k < sources.size(); ++k) column[k] = load<T>(sources[k].data(), i);
    const std::span<const T> x(column);
    if constexpr (std::is_same_v<T, Bool>) {
      store(out.data(), i, fold_bool(reduction, x));
    } else if constexpr (std::is_integral_v<T>) {
      store(out.data(), i, fold_integer(reduction, x));
    } else {
      store(out.data(), i, fold_float(reduction, x));
    }
  }
}

/// Calls `body` with a value of the C++ type that holds `type`.
template <typename Body>
void with_type(ElementType type, Body body) {
  switch (type) {
    case ElementType::kI8:
      return body(int8_t{});
    case ElementType::kU8:
      return body(uint8_t{});
    case ElementType::kI16:
      return body(int16_t{});
    case ElementType::kI32:
      return body(int32_t{});
    case ElementType::kI64:
      return body(int64_t{});
    case ElementType::kF16:
      return body(_Float16{});
    case ElementType::kBF16:
      return body(Bf16{});
    case ElementType::kF32:
      return body(float{});
    case ElementType::kF64:
      return body(double{});
    case ElementType::kBool:
      return body(Bool{});
  }
  SUMCAST_ASSERT(false);
}

/// Random bits of one element; elements, ranks and seeds are told apart by odd multipliers.
uint64_t bits_of(uint64_t seed, uint32_t rank, uint64_t index) {
  return Prng(seed * 0x9E6C63D0876A9A63u + rank * 0xD1342543DE82EF95u + index * 0xA24BAED4963EE407u)
      .next_u64();
}

/// A double that each float type rounds in its own way, between 2^-6 and 2^6 in magnitude.
double any_float(uint64_t bits) {
  const double mantissa = 1.0 + static_cast<double>(bits >> 12) * 0x1.0p-52;
  const double magnitude = std::ldexp(mantissa, static_cast<int>(bits % 12) - 6);
  return (bits & 0x800) != 0 ? -magnitude : magnitude;
}

/// Integers up to 15, of which 8 add up to less than bf16's 8 bits; for products, +-1/2, 1 or 2.
double exact_float(uint64_t bits, Reduction reduction) {
  if (reduction != Reduction::kProduct) return static_cast<double>(bits % 31) - 15;
  const double magnitude = std::ldexp(1.0, static_cast<int>(bits % 3) - 1);
  return (bits & 0x800) != 0 ? -magnitude : magnitude;
}

template <typename T>
T value_of(uint64_t bits, Values values, Reduction reduction) {
  if constexpr (std::is_same_v<T, Bool>) {
    // Mostly 0 and 1; sometimes another byte, which is true as well.
    const auto low = static_cast<uint8_t>(bits & 1);
    return {(bits & 0xF0) == 0 ? static_cast<uint8_t>(low * 0xFE) : low};
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(bits);
  } else {
    const double value = values == Values::kAny ? any_float(bits) : exact_float(bits, reduction);
    if constexpr (std::is_same_v<T, double>)
      return value;
    else
      return narrow<T>(static_cast<float>(value));
  }
}

}  // namespace

void fill_tensor(ElementType type, Values values, Reduction reduction, uint64_t seed, uint32_t rank,
                 uint64_t first, uint64_t count, std::byte* out) {
  with_type(type, [&](auto like) {
    using T = decltype(like);
    for (uint64_t i = 0; i < count; ++i) {
      store(out, i, value_of<T>(bits_of(seed, rank, first + i), values, reduction));
    }
  });
}

std::vector<std::byte> make_tensor(ElementType type, Values values, Reduction reduction,
                                   uint64_t seed, uint32_t rank, uint64_t count) {
  std::vector<std::byte> out(count * element_bytes(type));
  fill_tensor(type, values, reduction, seed, rank, 0, count, out.data());
  return out;
}

std::vector<std::byte> reduce_reference(ElementType type, Reduction reduction,
                                        std::span<const std::vector<std::byte>> sources) {
  if (reduction == Reduction::kCopy) return sources[0];
  std::vector<std::byte> out(sources[0].size());
  with_type(type, [&](auto like) { reduce_all<decltype(like)>(reduction, sources, out); });
  return out;
}

std::vector<std::byte> all_reduce_reference(ElementType type, Values values, Reduction reduction,
                                            uint64_t seed, uint32_t world, uint64_t count) {
  std::vector<std::vector<std::byte>> sources;
  for (uint32_t rank = 0; rank < world; ++rank) {
    sources.push_back(make_tensor(type, values, reduction, seed, rank, count));
  }
  return reduce_reference(type, reduction, sources);
}

bool ranks_share_hosts() {
  const char* text = std::getenv("SUMCAST_TEST_SHARE");
  return text != nullptr && std::string_view(text) == "1";
}

std::string sha256(std::span<const std::byte> bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  const int done =
      EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_sha256(), nullptr);
  SUMCAST_ASSERT(done == 1);
  std::string text;
  for (unsigned i = 0; i < size; ++i) {
    text += "0123456789abcdef"[digest[i] >> 4];
    text += "0123456789abcdef"[digest[i] & 15];
  }
  return text;
}

}  // namespace sumcast::acceptance

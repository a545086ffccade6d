// What tensors hold, how it is reduced, and how it travels. Values travel on the wire and stand
// in the C API: they are never renumbered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace sumcast {

/// Type of a tensor's element.
enum class ElementType : uint8_t {
  kI8 = 0,
  kU8 = 1,
  kI16 = 2,
  kI32 = 3,
  kI64 = 4,
  kF16 = 5,
  kBF16 = 6,
  kF32 = 7,
  kF64 = 8,
  kBool = 9,
};
inline constexpr int kElementTypes = 10;

/// What is done with the contributions of the ranks. Which pairs of type and reduction exist is
/// `reduction_applies`; the arithmetic is docs/numerics.md.
enum class Reduction : uint8_t {
  kSum = 0,
  kAvg = 1,  ///< Sum divided by the group's size: once, before rounding; integers truncate.
  kMin = 2,  ///< NaN propagates.
  kMax = 3,  ///< NaN propagates.
  kProduct = 4,
  kAnd = 5,   ///< Bitwise; integers and bool only.
  kOr = 6,    ///< Bitwise; integers and bool only.
  kXor = 7,   ///< Bitwise; integers and bool only.
  kCopy = 8,  ///< One rank contributes, nothing is added: broadcast, all-gather, barrier.
};
inline constexpr int kReductions = 9;

/// How elements travel. `kNative` sends them as they are, little endian. The others are offered
/// for f32 tensors with sum and avg; they accumulate in f32 (fixed: int32) and round once.
enum class WireFormat : uint8_t {
  kNative = 0,
  kBF16 = 1,
  kFP16 = 2,
  kInt8 = 3,   ///< One scale per block of 256 elements, on both legs.
  kFixed = 4,  ///< int32 lanes under one exponent per block of 256, as a switch adds them.
};
inline constexpr int kWireFormats = 5;

constexpr size_t element_bytes(ElementType type) {
  switch (type) {
    case ElementType::kI8:
    case ElementType::kU8:
    case ElementType::kBool:
      return 1;
    case ElementType::kI16:
    case ElementType::kF16:
    case ElementType::kBF16:
      return 2;
    case ElementType::kI32:
    case ElementType::kF32:
      return 4;
    case ElementType::kI64:
    case ElementType::kF64:
      return 8;
  }
  return 0;
}

constexpr bool is_float(ElementType type) {
  return type == ElementType::kF16 || type == ElementType::kBF16 || type == ElementType::kF32 ||
         type == ElementType::kF64;
}

constexpr bool is_bitwise(Reduction reduction) {
  return reduction == Reduction::kAnd || reduction == Reduction::kOr ||
         reduction == Reduction::kXor;
}

/// The published table of what exists (docs/numerics.md): bitwise reductions need integers or
/// bool; all else is offered for every type.
constexpr bool reduction_applies(ElementType type, Reduction reduction) {
  return !(is_bitwise(reduction) && is_float(type));
}

/// The library's names: "i8" "u8" "i16" "i32" "i64" "f16" "bf16" "f32" "f64" "bool".
std::string_view name_of(ElementType type);
/// "sum" "avg" "min" "max" "product" "and" "or" "xor" "copy".
std::string_view name_of(Reduction reduction);
/// "native" "bf16" "fp16" "int8" "fixed".
std::string_view name_of(WireFormat format);

std::optional<ElementType> element_type_from_name(std::string_view name);
std::optional<Reduction> reduction_from_name(std::string_view name);
/// Accepts "fp32" for native too.
std::optional<WireFormat> wire_format_from_name(std::string_view name);

}  // namespace sumcast

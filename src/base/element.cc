#include "base/element.h"

#include <array>

namespace sumcast {
namespace {

constexpr std::array<std::string_view, kElementTypes> kElementNames = {
    "i8", "u8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "bool"};
constexpr std::array<std::string_view, kReductions> kReductionNames = {
    "sum", "avg", "min", "max", "product", "and", "or", "xor", "copy"};
constexpr std::array<std::string_view, kWireFormats> kFormatNames = {"native", "bf16", "fp16",
                                                                     "int8", "fixed"};

template <typename Enum, size_t kCount>
std::string_view lookup(const std::array<std::string_view, kCount>& names, Enum value) {
  const auto index = static_cast<size_t>(value);
  return index < kCount ? names[index] : std::string_view("?");
}

template <typename Enum, size_t kCount>
std::optional<Enum> find(const std::array<std::string_view, kCount>& names, std::string_view name) {
  for (size_t i = 0; i < kCount; ++i) {
    if (names[i] == name) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

}  // namespace

std::string_view name_of(ElementType type) { return lookup(kElementNames, type); }
std::string_view name_of(Reduction reduction) { return lookup(kReductionNames, reduction); }
std::string_view name_of(WireFormat format) { return lookup(kFormatNames, format); }

std::optional<ElementType> element_type_from_name(std::string_view name) {
  return find<ElementType>(kElementNames, name);
}
std::optional<Reduction> reduction_from_name(std::string_view name) {
  return find<Reduction>(kReductionNames, name);
}
std::optional<WireFormat> wire_format_from_name(std::string_view name) {
  if (name == "fp32") return WireFormat::kNative;
  return find<WireFormat>(kFormatNames, name);
}

}  // namespace sumcast

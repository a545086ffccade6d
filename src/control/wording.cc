#include "control/wording.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace sumcast::control {

std::string ranks_text(std::span<const Rank> ranks) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < ranks.size();) {
    size_t end = i + 1;
    while (end < ranks.size() && ranks[end].value == ranks[end - 1].value + 1) ++end;
    if (end - i >= 3) {
      parts.push_back(fmt::format("{}-{}", ranks[i].value, ranks[end - 1].value));
    } else {
      end = i + 1;
      parts.push_back(fmt::format("{}", ranks[i].value));
    }
    i = end;
  }
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) text += i + 1 == parts.size() ? " and " : ", ";
    text += parts[i];
  }
  return text;
}

std::string printable(std::string text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool is_c1 =
        byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (is_c1) text[i + 1] = ' ';
    if (is_c1 || byte < 0x20 || byte == 0x7F) text[i] = ' ';
  }
  return text;
}

std::string span_text(Duration span) {
  const int64_t count =
      std::max<int64_t>(0, std::chrono::round<std::chrono::milliseconds>(span).count());
  if (count < 1000) return fmt::format("{} ms", count);
  return fmt::format("{:.1f} s", static_cast<double>(count) * 1e-3);
}

std::string_view kind_of_operation(std::string_view operation) {
  const std::string_view kind = operation.substr(0, operation.find(' '));
  return kind.empty() ? "operation" : kind;
}

std::string operation_text(std::string_view operation, uint64_t sequence, GroupId group) {
  return fmt::format("{} #{} on group {}", kind_of_operation(operation), sequence & ~kCallNumber,
                     group.value);
}

}  // namespace sumcast::control

#include "net/ifname.h"

#include <fmt/format.h>

#include <algorithm>

namespace sumcast::net {
namespace {

bool take_mark(std::string_view& text, char mark) {
  if (text.empty() || text.front() != mark) return false;
  text.remove_prefix(1);
  return true;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

}  // namespace

Result<IfnameSelector> IfnameSelector::parse(std::string_view text) {
  IfnameSelector selector;
  selector.text_ = text;
  std::string_view rest = trimmed(text);
  if (rest.empty()) return IfnameSelector();
  selector.excludes_ = take_mark(rest, '^');
  selector.exact_ = take_mark(rest, '=');
  while (!rest.empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view name = trimmed(rest.substr(0, comma));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    if (name.empty()) continue;  // NCCL lets "eth0," pass, and so do we.
    if (name.front() == '^' || name.front() == '=') {
      return fail(
          ErrorCode::kInvalidArgument,
          fmt::format("'{}': ^ and = stand in front of the whole list, not of '{}'", text, name));
    }
    selector.names_.emplace_back(name);
  }
  if (selector.names_.empty()) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("'{}' names no interface", text));
  }
  return selector;
}

bool IfnameSelector::matches(std::string_view name) const {
  if (names_.empty()) return true;
  const bool listed = std::any_of(names_.begin(), names_.end(), [&](const std::string& wanted) {
    return exact_ ? name == wanted : name.substr(0, wanted.size()) == wanted;
  });
  return listed != excludes_;
}

}  // namespace sumcast::net

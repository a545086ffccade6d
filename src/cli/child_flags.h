// Command lines of the processes that a bench starts.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

namespace sumcast::cli {

/// Appends `flag` and the value's text; neither, if that is empty.
template <typename Value>
void add_flag(std::vector<std::string>& argv, const char* flag, const Value& value) {
  std::string text = fmt::format("{}", value);
  if (text.empty()) return;
  argv.emplace_back(flag);
  argv.push_back(std::move(text));
}

}  // namespace sumcast::cli

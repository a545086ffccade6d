// For tests: a small reader of markup that finds tags which do not balance, attributes without
// quotes and bare ampersands. Knows HTML's void elements; knows nothing of what tags mean.
#pragma once

#include <cctype>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace sumcast::report {

/// Empty if `markup` is well-formed, else what is wrong and where.
inline std::string markup_problem(std::string_view markup) {
  static const std::set<std::string, std::less<>> kVoid = {"meta", "br", "hr", "link", "img"};
  std::vector<std::string> open;
  const auto near = [&](size_t at) { return " near '" + std::string(markup.substr(at, 60)) + "'"; };
  size_t at = 0;
  while (at < markup.size()) {
    if (markup[at] == '&' && (open.empty() || open.back() != "style")) {
      const size_t end = markup.find(';', at);
      if (end == std::string_view::npos || end - at > 8) return "bare ampersand" + near(at);
    }
    if (markup[at] != '<') {
      ++at;
      continue;
    }
    const size_t close = markup.find('>', at);
    if (close == std::string_view::npos) return "unclosed tag" + near(at);
    const std::string_view tag = markup.substr(at + 1, close - at - 1);
    if (tag.find('<') != std::string_view::npos) return "tag within a tag" + near(at);
    if (tag.starts_with('?') || tag.starts_with('!')) {
      at = close + 1;
      continue;
    }
    size_t quotes = 0;
    for (const char c : tag) quotes += c == '"';
    if (quotes % 2 != 0) return "odd quotes" + near(at);
    size_t length = tag.starts_with('/') ? 1 : 0;
    while (length < tag.size() && std::isalnum(static_cast<unsigned char>(tag[length]))) ++length;
    const std::string name(
        tag.substr(tag.starts_with('/') ? 1 : 0, length - (tag.starts_with('/') ? 1 : 0)));
    if (name.empty()) return "tag without a name" + near(at);
    if (tag.starts_with('/')) {
      if (open.empty() || open.back() != name) return "unexpected </" + name + ">" + near(at);
      open.pop_back();
    } else if (!tag.ends_with('/') && !kVoid.contains(name)) {
      open.push_back(name);
    }
    at = close + 1;
  }
  return open.empty() ? "" : "never closed: " + open.back();
}

}  // namespace sumcast::report

#include "dataset/formats.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "dataset/words.h"

namespace sumcast::dataset {
namespace {

template <typename T>
std::optional<T> parse_whole(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

const std::vector<std::string>& SampleReader::label_names() const {
  static const std::vector<std::string> kNone;
  return kNone;
}

void split(std::string_view line, char separator, std::vector<std::string_view>& parts) {
  parts.clear();
  size_t begin = 0;
  for (;;) {
    const size_t end = line.find(separator, begin);
    parts.push_back(line.substr(begin, end - begin));
    if (end == std::string_view::npos) return;
    begin = end + 1;
  }
}

std::optional<float> parse_number(std::string_view text) {
  const auto value = parse_whole<float>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

std::optional<int64_t> parse_integer(std::string_view text) { return parse_whole<int64_t>(text); }

void set_word_features(std::string_view text, std::vector<Feature>& features) {
  std::vector<uint64_t> keys;
  append_word_keys(text, keys);
  std::sort(keys.begin(), keys.end());
  features.clear();
  for (const uint64_t key : keys) {
    if (features.empty() || features.back().key != key) features.push_back({key, 0});
    features.back().value += 1;
  }
}

std::string quoted(std::string_view text) {
  constexpr size_t kShown = 40;
  return text.size() <= kShown ? fmt::format("'{}'", text)
                               : fmt::format("'{}...'", text.substr(0, kShown));
}

std::string_view guess_format(std::string_view first_line) {
  if (first_line.starts_with("Package: ")) return "packages";
  if (std::count(first_line.begin(), first_line.end(), '\t') == 39) return "criteo";
  if (first_line.starts_with("id,click,hour")) return "avazu";
  const size_t end = first_line.find(' ');
  const std::string_view rest =
      end == std::string_view::npos ? std::string_view() : first_line.substr(end + 1);
  const std::string_view pair = rest.substr(0, rest.find(' '));
  const size_t colon = pair.find(':');
  if (parse_number(first_line.substr(0, end)) &&
      (rest.empty() || (colon != std::string_view::npos && parse_integer(pair.substr(0, colon))))) {
    return "libsvm";
  }
  return "text";
}

}  // namespace sumcast::dataset

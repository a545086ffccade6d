#include <fmt/format.h>

#include <algorithm>

#include "dataset/formats.h"
#include "dataset/key_hash.h"

namespace sumcast::dataset {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t'; }

/// Takes the next word off the front of `line`; empty at the end.
std::string_view next_word(std::string_view& line) {
  while (!line.empty() && is_blank(line.front())) line.remove_prefix(1);
  size_t length = 0;
  while (length < line.size() && !is_blank(line[length])) ++length;
  const std::string_view word = line.substr(0, length);
  line.remove_prefix(length);
  return word;
}

class LibsvmReader final : public SampleReader {
 public:
  explicit LibsvmReader(LineReader lines) : lines_(std::move(lines)) {}

  Result<bool> next(Sample& sample) override {
    std::string_view line, word;
    do {
      const auto more = lines_.next(line);
      if (!more || !*more) return more;
      line = line.substr(0, line.find('#'));
      word = next_word(line);
    } while (word.empty());
    const auto label = parse_number(word);
    if (!label) {
      return fail(lines_.malformed(fmt::format("the label {} is no number", quoted(word))));
    }
    auto read = read_pairs(line);
    if (!read) return fail(read.error());
    sample.label = *label;
    sample.group = lines_.line_number();
    std::swap(sample.features, features_);
    return true;
  }

 private:
  Result<void> read_pairs(std::string_view line) {
    features_.clear();
    int64_t last = -1;
    for (auto word = next_word(line); !word.empty(); word = next_word(line)) {
      const size_t colon = word.find(':');
      const auto index = parse_integer(word.substr(0, colon));
      const auto value =
          colon == std::string_view::npos ? std::nullopt : parse_number(word.substr(colon + 1));
      if (!index || *index < 0 || !value) {
        return fail(lines_.malformed(fmt::format("{} is no index:value", quoted(word))));
      }
      if (*index <= last) {
        return fail(lines_.malformed(
            fmt::format("index {} comes after {}; indices must ascend", *index, last)));
      }
      last = *index;
      features_.push_back({field_key(0, static_cast<uint64_t>(*index)), *value,
                           static_cast<uint32_t>(std::min<int64_t>(*index, UINT32_MAX))});
    }
    return {};
  }

  LineReader lines_;
  std::vector<Feature> features_;
};

}  // namespace

std::unique_ptr<SampleReader> make_libsvm_reader(LineReader lines) {
  return std::make_unique<LibsvmReader>(std::move(lines));
}

}  // namespace sumcast::dataset

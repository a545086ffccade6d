#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "dataset/formats.h"
#include "dataset/key_hash.h"

namespace sumcast::dataset {
namespace {

constexpr size_t kIntegers = 13;
constexpr size_t kCategories = 26;
constexpr size_t kColumns = 1 + kIntegers + kCategories;
constexpr size_t kCategoryDigitsMax = 16;

bool is_hexadecimal(std::string_view text) {
  return text.size() <= kCategoryDigitsMax &&
         text.find_first_not_of("0123456789abcdefABCDEF") == std::string_view::npos;
}

class CriteoReader final : public SampleReader {
 public:
  explicit CriteoReader(LineReader lines) : lines_(std::move(lines)) {}

  Result<bool> next(Sample& sample) override {
    std::string_view line;
    const auto more = lines_.next(line);
    if (!more || !*more) return more;
    split(line, '\t', columns_);
    if (columns_.size() != kColumns) {
      return fail(lines_.malformed(
          fmt::format("{} columns between tabs, not {}", columns_.size(), kColumns)));
    }
    if (columns_[0] != "0" && columns_[0] != "1") {
      return fail(lines_.malformed(fmt::format("the label {} is not 0 or 1", quoted(columns_[0]))));
    }
    if (auto read = read_columns(); !read) return fail(read.error());
    sample.label = columns_[0] == "1" ? 1.0f : 0.0f;
    sample.group = lines_.line_number();
    std::swap(sample.features, features_);
    return true;
  }

 private:
  Result<void> read_columns() {
    features_.clear();
    for (uint32_t column = 1; column < kColumns; ++column) {
      const std::string_view text = columns_[column];
      if (text.empty()) continue;
      if (column <= kIntegers) {
        const auto count = parse_integer(text);
        if (!count) return fail(wrong(column, "no integer"));
        const auto magnitude = std::log1p(std::abs(static_cast<float>(*count)));
        features_.push_back(
            {field_key(column, 0), std::copysign(magnitude, *count < 0 ? -1.f : 1.f), column});
      } else {
        if (!is_hexadecimal(text)) return fail(wrong(column, "no hexadecimal number"));
        features_.push_back({field_key(column, hash_bytes(text)), 1.0f, column});
      }
    }
    return {};
  }

  Error wrong(uint32_t column, std::string_view what) const {
    return lines_.malformed(
        fmt::format("column {}, {}, is {}", column + 1, quoted(columns_[column]), what));
  }

  LineReader lines_;
  std::vector<std::string_view> columns_;
  std::vector<Feature> features_;
};

}  // namespace

std::unique_ptr<SampleReader> make_criteo_reader(LineReader lines) {
  return std::make_unique<CriteoReader>(std::move(lines));
}

}  // namespace sumcast::dataset

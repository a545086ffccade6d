#include <fmt/format.h>

#include <algorithm>

#include "dataset/formats.h"
#include "dataset/key_hash.h"

namespace sumcast::dataset {
namespace {

struct AvazuHeader {
  size_t columns = 0;
  size_t id = 0;
  size_t click = 0;
  size_t hour = 0;
};

/// YYMMDDHH, as far as the hour of the day needs it.
bool is_hour(std::string_view text) {
  return text.size() == 8 && text.find_first_not_of("0123456789") == std::string_view::npos &&
         text.substr(6) < "24";
}

class AvazuReader final : public SampleReader {
 public:
  AvazuReader(LineReader lines, AvazuHeader header) : lines_(std::move(lines)), header_(header) {}

  Result<bool> next(Sample& sample) override {
    std::string_view line;
    const auto more = lines_.next(line);
    if (!more || !*more) return more;
    split(line, ',', columns_);
    if (columns_.size() != header_.columns) {
      return fail(lines_.malformed(fmt::format("{} columns between commas where the header has {}",
                                               columns_.size(), header_.columns)));
    }
    const std::string_view click = columns_[header_.click];
    if (click != "0" && click != "1") {
      return fail(lines_.malformed(fmt::format("the click {} is not 0 or 1", quoted(click))));
    }
    const std::string_view hour = columns_[header_.hour];
    if (!is_hour(hour)) {
      return fail(lines_.malformed(fmt::format("the hour {} is not YYMMDDHH", quoted(hour))));
    }
    sample.features.clear();
    for (size_t column = 0; column < columns_.size(); ++column) {
      if (column == header_.id || column == header_.click || columns_[column].empty()) continue;
      const std::string_view value = column == header_.hour ? hour.substr(6) : columns_[column];
      const auto field = static_cast<uint32_t>(column);
      sample.features.push_back({field_key(field, hash_bytes(value)), 1.0f, field});
    }
    sample.label = click == "1" ? 1.0f : 0.0f;
    sample.group = lines_.line_number();
    return true;
  }

 private:
  LineReader lines_;
  AvazuHeader header_;
  std::vector<std::string_view> columns_;
};

}  // namespace

Result<std::unique_ptr<SampleReader>> make_avazu_reader(LineReader lines) {
  std::string_view line;
  const auto more = lines.next(line);
  if (!more) return fail(more.error());
  std::vector<std::string_view> names;
  split(line, ',', names);
  AvazuHeader header{.columns = names.size()};
  for (const auto& [name, place] : {std::pair{"id", &header.id}, std::pair{"click", &header.click},
                                    std::pair{"hour", &header.hour}}) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (!*more || found == names.end()) {
      return fail(lines.malformed(
          fmt::format("no header with the columns id, click and hour: '{}' is missing", name)));
    }
    *place = static_cast<size_t>(found - names.begin());
  }
  return std::make_unique<AvazuReader>(std::move(lines), header);
}

}  // namespace sumcast::dataset

#include "report/table.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/assert.h"

namespace sumcast::report {
namespace {

constexpr std::string_view kGap = "  ";

struct Range {
  uint32_t first;
  uint32_t last;
};
// The blocks that occur in practice, not the whole of Unicode's EastAsianWidth.
constexpr std::array<Range, 4> kZeroWide = {
    {{0x0300, 0x036F}, {0x200B, 0x200F}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}}};
constexpr std::array<Range, 9> kTwoWide = {{{0x1100, 0x115F},
                                            {0x2E80, 0xA4CF},
                                            {0xAC00, 0xD7A3},
                                            {0xF900, 0xFAFF},
                                            {0xFE30, 0xFE6F},
                                            {0xFF00, 0xFF60},
                                            {0xFFE0, 0xFFE6},
                                            {0x1F300, 0x1FAFF},
                                            {0x20000, 0x3FFFD}}};

template <size_t kCount>
bool within(const std::array<Range, kCount>& ranges, uint32_t point) {
  return std::any_of(ranges.begin(), ranges.end(), [point](const Range& range) {
    return range.first <= point && point <= range.last;
  });
}

/// Takes one code point off the front of `text`; a byte that starts none stands for itself.
uint32_t next_code_point(std::string_view& text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  size_t length = 1;
  uint32_t point = byte(0);
  if (point >= 0xF0 && point < 0xF8) {
    length = 4, point &= 0x07;
  } else if (point >= 0xE0 && point < 0xF0) {
    length = 3, point &= 0x0F;
  } else if (point >= 0xC2 && point < 0xE0) {
    length = 2, point &= 0x1F;
  }
  for (size_t i = 1; i < length; ++i) {
    if (i >= text.size() || (byte(i) & 0xC0) != 0x80) {
      point = byte(0);
      length = 1;
      break;
    }
    point = point << 6 | (byte(i) & 0x3F);
  }
  text.remove_prefix(length);
  return point;
}

}  // namespace

size_t display_width(std::string_view text) {
  size_t width = 0;
  while (!text.empty()) {
    const uint32_t point = next_code_point(text);
    width += within(kZeroWide, point) ? 0 : within(kTwoWide, point) ? 2 : 1;
  }
  return width;
}

std::string pad_right(std::string_view text, size_t width) {
  const size_t own = display_width(text);
  return std::string(text) + std::string(width > own ? width - own : 0, ' ');
}

std::string pad_left(std::string_view text, size_t width) {
  const size_t own = display_width(text);
  return std::string(width > own ? width - own : 0, ' ') + std::string(text);
}

void Table::add_row(std::vector<std::string> cells) {
  SUMCAST_ASSERT(cells.size() == columns_.size());
  for (std::string& cell : cells) {
    std::replace_if(
        cell.begin(), cell.end(),
        [](char c) { return static_cast<uint8_t>(c) < 0x20 || c == 0x7F; }, ' ');
  }
  rows_.push_back(std::move(cells));
}

std::string Table::to_string() const {
  std::vector<size_t> widths;
  for (size_t column = 0; column < columns_.size(); ++column) {
    size_t width = display_width(columns_[column].title);
    for (const auto& row : rows_) width = std::max(width, display_width(row[column]));
    widths.push_back(width);
  }
  std::string out;
  const auto add_line = [&](auto cell_of) {
    std::string line;
    for (size_t column = 0; column < columns_.size(); ++column) {
      if (column > 0) line += kGap;
      const bool left = columns_[column].align == Align::kLeft;
      line += left ? pad_right(cell_of(column), widths[column])
                   : pad_left(cell_of(column), widths[column]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  };
  add_line([&](size_t column) { return columns_[column].title; });
  add_line([&](size_t column) { return std::string(widths[column], '-'); });
  for (const auto& row : rows_) add_line([&](size_t column) { return row[column]; });
  return out;
}

}  // namespace sumcast::report

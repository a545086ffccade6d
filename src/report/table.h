// Aligned tables for terminals. Columns are as wide as their widest cell; widths are counted in
// terminal cells, not bytes, so that a host name with an umlaut does not shift its row.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sumcast::report {

/// Terminal cells that `text` (UTF-8) takes: combining marks none, East Asian and emoji two, all
/// else one. Bytes that are not UTF-8 count one each.
size_t display_width(std::string_view text);

/// Pads with spaces to `width` cells; longer text is returned as it is.
std::string pad_right(std::string_view text, size_t width);
std::string pad_left(std::string_view text, size_t width);

enum class Align : bool {
  kLeft,   ///< Words.
  kRight,  ///< Numbers.
};

struct Column {
  std::string title;
  Align align = Align::kRight;
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// One cell per column (asserted). Control characters in a cell become spaces: a cell may hold a
  /// name that came over the network, and must not drive the terminal.
  void add_row(std::vector<std::string> cells);

  /// Title, rule and rows, each line ended by a newline and without trailing spaces.
  std::string to_string() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace sumcast::report

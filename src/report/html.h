// A self-contained page: no script, no font, no image from elsewhere, one file to mail around.
//
// The page is built from the top down. All text passed in is plain and escaped here; only figures
// (svg.h) are taken as markup. It follows the reader's light or dark preference, prints in light,
// and every figure carries its numbers as a table that opens below it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/table.h"

namespace sumcast::report {

struct HtmlTable {
  std::string caption;
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;  ///< One cell per column; the first names the row.
  std::optional<size_t> highlight;             ///< Row to set off.
};

struct KeyFigure {
  std::string value;   ///< Large: "2.1x".
  std::string label;   ///< Below it: "faster per step than a ring".
  std::string detail;  ///< Small: what was compared. May be empty.
};

class HtmlPage {
 public:
  HtmlPage(std::string_view title, std::string_view introduction);

  void key_figures(const std::vector<KeyFigure>& figures);
  void section(std::string_view heading);
  void paragraph(std::string_view text);
  void list(const std::vector<std::string>& items);
  void table(const HtmlTable& table);
  /// `svg`: an element from svg.h. `numbers`: the same data, for those who cannot see or trust it.
  void figure(std::string_view svg, std::string_view caption, const HtmlTable& numbers);
  /// Pairs of a term and what it is, e.g. the machine's description.
  void facts(const std::vector<std::pair<std::string, std::string>>& facts);

  /// The whole document.
  std::string finish(std::string_view footer) &&;

 private:
  std::string out_;
};

}  // namespace sumcast::report

// Results kept as one JSON object a line, so that a long run can be taken up.
#pragma once

#include <fmt/format.h>

#include <fstream>
#include <string>
#include <vector>

#include "base/result.h"

namespace sumcast::cli {

/// What a file of results holds; nothing if there is no such file.
///
/// @param parse  Result<Row>(const std::string& line); its error gets the file and the line.
template <typename Row, typename Parse>
Result<std::vector<Row>> read_result_lines(const std::string& path, Parse parse) {
  std::vector<Row> rows;
  std::ifstream file(path);
  size_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    Result<Row> row = parse(line);
    if (!row) return fail(row.error().within(fmt::format("{}:{}", path, number)));
    rows.push_back(std::move(*row));
  }
  return rows;
}

}  // namespace sumcast::cli

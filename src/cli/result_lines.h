// Results kept as one JSON object a line, so that a long run can be taken up.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "base/result.h"

namespace sumcast::cli {

/// What a file of results holds; nothing if there is no such file. A last line without its end was
/// being written when its run was stopped: it is taken off the file, so that others can follow.
///
/// @param parse  Result<Row>(const std::string& line); its error gets the file and the line.
template <typename Row, typename Parse>
Result<std::vector<Row>> read_result_lines(const std::string& path, Parse parse) {
  std::vector<Row> rows;
  std::ifstream file(path);
  size_t number = 0;
  uint64_t whole_bytes = 0;
  for (std::string line; std::getline(file, line);) {
    if (file.eof()) {
      std::error_code failed;
      std::filesystem::resize_file(path, whole_bytes, failed);
      if (!failed) break;
      return fail(ErrorCode::kSystem, fmt::format("{}: its last line is cut off, and cannot be "
                                                  "taken away: {}",
                                                  path, failed.message()));
    }
    whole_bytes += line.size() + 1;
    ++number;
    Result<Row> row = parse(line);
    if (!row) return fail(row.error().within(fmt::format("{}:{}", path, number)));
    rows.push_back(std::move(*row));
  }
  return rows;
}

}  // namespace sumcast::cli

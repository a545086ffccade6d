#include "report/ratio_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "report/table.h"
#include "report/units.h"

namespace sumcast::report {
namespace {

std::string format_us(double microseconds) { return format_scaled(microseconds * 1e-6, "s"); }

}  // namespace

std::string ratio_table(std::span<const BenchRow> rows, std::string_view reference) {
  std::vector<std::string> algorithms;
  std::map<uint64_t, std::map<std::string, double>> times;  // bytes -> algorithm -> time_us
  for (const BenchRow& row : rows) {
    if (std::ranges::find(algorithms, row.algo) == algorithms.end()) algorithms.push_back(row.algo);
    times[row.bytes][row.algo] = row.time_us;
  }
  // Ratio and time get a column each, so that both align; the title stands over the pair.
  std::vector<Column> columns = {{"size"}};
  for (const std::string& algorithm : algorithms) {
    if (algorithm != reference) columns.push_back({"vs " + std::string(reference)});
    columns.push_back({algorithm});
  }
  Table table(std::move(columns));
  for (const auto& [bytes, of_size] : times) {
    std::vector<std::string> cells = {format_bytes(static_cast<double>(bytes))};
    const auto base = of_size.find(std::string(reference));
    for (const std::string& algorithm : algorithms) {
      const auto found = of_size.find(algorithm);
      const bool known = found != of_size.end() && found->second > 0.0;
      if (algorithm != reference) {
        const bool comparable = known && base != of_size.end();
        cells.push_back(comparable ? format_ratio(base->second / found->second) : "-");
      }
      cells.push_back(known ? format_us(found->second) : "-");
    }
    table.add_row(std::move(cells));
  }
  return table.to_string();
}

}  // namespace sumcast::report

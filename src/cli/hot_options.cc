#include "cli/hot_options.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "cli/output_file.h"
#include "hotset/placement.h"

namespace sumcast::cli {
namespace {

constexpr uint32_t kContributorsMax = 1u << 16;
constexpr uint64_t kBatchMax = 1u << 24;

}  // namespace

Result<double> parse_share(const std::string& text) {
  std::string number = text;
  const bool is_percent = number.ends_with('%');
  if (is_percent) number.pop_back();
  while (number.ends_with(' ')) number.pop_back();
  double value = 0;
  const char* const end = number.data() + number.size();
  const auto [stopped, error] = std::from_chars(number.data(), end, value);
  if (error != std::errc() || stopped != end || !std::isfinite(value)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("'{}' is no share; write 4% or 0.04", text));
  }
  return is_percent ? value / 100 : value;
}

std::vector<std::string> HotOptions::validate() const {
  std::vector<std::string> problems;
  const auto require = [&](bool holds, std::string problem) {
    if (!holds) problems.push_back(std::move(problem));
  };
  const auto check_share = [&](const char* flag, const std::string& text, bool may_be_zero) {
    const auto share = parse_share(text);
    if (!share) {
      problems.push_back(fmt::format("{}: {}", flag, share.error().what));
    } else {
      require(
          *share <= 1 && (may_be_zero ? *share >= 0 : *share > 0),
          fmt::format("{}: {} is not {} 0 to 100 %", flag, text, may_be_zero ? "within" : "above"));
    }
  };
  require(!source.empty(), "no data: name a file, debian-packages, ctr or flat");
  check_share("--sample", sample, false);
  check_share("--doubled", doubled, true);
  require(batch >= 1 && batch <= kBatchMax, fmt::format("--batch must be 1 to {}", kBatchMax));
  require(workers >= 1 && rounds_held >= 1 && uint64_t{workers} * rounds_held <= kContributorsMax,
          fmt::format("--workers times --rounds-held must be 1 to {}", kContributorsMax));
  require(arrays >= 1 && arrays <= hotset::kArraysMax,
          fmt::format("--arrays must be 1 to {}", hotset::kArraysMax));
  require(row_width <= 65'536, "--row-width must be 0 to 65536");
  if (!model.empty()) {
    require(source != "flat",
            "--model: nothing trains on flat; name a file, debian-packages or ctr");
    require(rows == 0 || source == "ctr", "--rows: not with --model, which reads all of a file");
  }
  require(servers <= 65'536, "--servers must be at most 65536");
  require(fan_in_min >= 1, "--fan-in must be at least 1");
  require(rows <= UINT32_MAX, "--rows must be below 2^32");
  for (const auto& [flag, path] : {std::pair("--out", &out), std::pair("--report", &report)}) {
    const std::string obstacle = path->empty() ? "" : why_not_writable(*path);
    require(obstacle.empty(), fmt::format("{}: cannot write {}: {}", flag, *path, obstacle));
  }
  return problems;
}

double HotOptions::sample_share() const { return *parse_share(sample); }

double HotOptions::doubled_share() const { return *parse_share(doubled); }

}  // namespace sumcast::cli

#include "cli/demo_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/assert.h"
#include "cli/output_file.h"
#include "pipeline/options.h"
#include "runtime/units.h"

namespace sumcast::cli {
namespace {

/// The published training set; a smaller one is not the full run.
constexpr uint64_t kFullImages = 60'000;

/// `text` as a shell takes it for one word.
std::string quoted(const std::string& text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789./_-+:,@%=";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string::npos) return text;
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

/// "auto" is 0.
std::optional<uint32_t> width_of(const std::string& text) {
  if (text == "auto") return 0;
  if (text.size() != 1 || text[0] < '1') return std::nullopt;
  const auto number = static_cast<uint32_t>(text[0] - '0');
  return number <= pipeline::kWidthMax ? std::optional(number) : std::nullopt;
}

}  // namespace

std::vector<std::string> DemoOptions::validate() const {
  std::vector<std::string> problems;
  const auto require = [&](bool holds, std::string problem) {
    if (!holds) problems.push_back(std::move(problem));
  };
  require(workers >= 2 && workers <= kDemoWorkersMax,
          fmt::format("--workers must be 2 to {}, not {}", kDemoWorkersMax, workers));
  require(epochs >= 1 && epochs <= 1000, fmt::format("--epochs must be 1 to 1000, not {}", epochs));
  require(batch >= 1 && batch <= 60'000, fmt::format("--batch must be 1 to 60000, not {}", batch));
  require(images >= 0, fmt::format("--images must not be negative, is {}", images));
  if (images > 0 && workers >= 1 && batch >= 1) {
    require(images >= static_cast<int64_t>(workers) * batch,
            fmt::format("--images {} is too few for one step of {} workers with --batch {}: give "
                        "at least {}",
                        images, workers, batch, static_cast<int64_t>(workers) * batch));
  }
  const Result<uint64_t> bits = runtime::parse_rate(rate);
  if (!bits) {
    problems.push_back("--rate: " + bits.error().what);
  } else {
    require(*bits >= 1'000'000 && *bits <= 100'000'000'000,
            fmt::format("--rate must be 1mbit to 100gbit, not {}", rate));
  }
  const std::optional<uint32_t> steps_at_once = width_of(width);
  require(steps_at_once.has_value(),
          fmt::format("--width must be 1 to {} or auto, not {}", pipeline::kWidthMax, width));
  require(!auto_wire || steps_at_once == 0u, "--auto-wire needs --width auto");
  for (const std::string& name : methods) {
    require(demo_method_from_name(name).has_value(),
            fmt::format("--method: there is no method \"{}\"; choose from {}", name,
                        demo_method_names()));
  }
  const std::string obstacle = why_not_writable(report);
  require(obstacle.empty(), fmt::format("--report: cannot write {}: {}", report, obstacle));
  return problems;
}

uint32_t DemoOptions::width_number() const {
  const std::optional<uint32_t> number = width_of(width);
  SUMCAST_ASSERT(number.has_value());
  return *number;
}

uint64_t DemoOptions::rate_bits_per_second() const {
  const Result<uint64_t> bits = runtime::parse_rate(rate);
  SUMCAST_ASSERT(bits.has_value());
  return *bits;
}

std::vector<DemoMethod> DemoOptions::chosen_methods() const {
  std::vector<DemoMethod> chosen;
  for (const DemoMethod& method : demo_methods()) {
    const bool wanted = methods.empty() || std::ranges::find(methods, method.name) != methods.end();
    if (!wanted) continue;
    chosen.push_back(method);
    // When a width changes depends on the times of a run, and so do its bits.
    if (width_number() == 0) chosen.back().canonical = false;
  }
  return chosen;
}

uint64_t DemoOptions::steps(uint64_t training_images) const {
  const uint64_t used =
      images == 0 ? training_images : std::min(training_images, static_cast<uint64_t>(images));
  const uint64_t per_step = static_cast<uint64_t>(workers) * static_cast<uint64_t>(batch);
  return used / per_step * static_cast<uint64_t>(epochs);
}

bool DemoOptions::full_size(uint64_t training_images) const {
  const bool all_images = training_images >= kFullImages &&
                          (images == 0 || static_cast<uint64_t>(images) >= kFullImages);
  return all_images && width_number() == 1 && epochs >= kDemoFullEpochs &&
         workers * batch <= kDemoFullImagesPerStep;
}

std::string DemoOptions::command_line() const {
  const DemoOptions standard;
  std::string line = "sumcast demo";
  const auto add = [&](bool differs, std::string flag) {
    if (differs) line += " " + flag;
  };
  add(workers != standard.workers, fmt::format("--workers {}", workers));
  add(epochs != standard.epochs, fmt::format("--epochs {}", epochs));
  add(batch != standard.batch, fmt::format("--batch {}", batch));
  add(rate != standard.rate, fmt::format("--rate {}", quoted(rate)));
  add(images != standard.images, fmt::format("--images {}", images));
  add(seed != standard.seed, fmt::format("--seed {}", seed));
  add(!methods.empty(),
      fmt::format("--method {}", quoted(fmt::format("{}", fmt::join(methods, ",")))));
  add(width != standard.width, fmt::format("--width {}", quoted(width)));
  add(auto_wire, "--auto-wire");
  add(data != standard.data, fmt::format("--data {}", quoted(data)));
  add(report != standard.report, fmt::format("--report {}", quoted(report)));
  add(loopback, "--loopback");
  add(json, "--json");
  return line;
}

}  // namespace sumcast::cli

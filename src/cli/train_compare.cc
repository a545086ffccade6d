#include "cli/train_compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <numeric>

#include "cli/bench_site.h"
#include "cli/bench_statistics.h"
#include "cli/child_flags.h"
#include "report/table.h"
#include "runtime/units.h"

namespace sumcast::cli {
namespace {

constexpr Duration kEpochPatience = 300s;  // The first includes reading the data.
constexpr Duration kLeavePatience = 30s;

struct Way {
  const char* name;
  std::string hot;
  std::vector<CompareRun> runs;
};

/// One training from start to end.
Result<CompareRun> train_once(BenchSite& site, const TrainOptions& options) {
  auto daemon = site.daemon_address(/*on_server=*/false);
  if (!daemon) return fail(daemon.error());
  std::vector<lab::Process> members;
  const uint32_t world = options.workers + options.servers;
  for (uint32_t rank = 0; rank < world; ++rank) {
    lab::SpawnOptions spawning;
    spawning.env = {fmt::format("RANK={}", rank),
                    fmt::format("WORLD_SIZE={}", world),
                    "LOCAL_RANK=0",
                    "SUMCAST_JOB=train-compare",
                    "SUMCAST_AGGREGATOR=" + *daemon,
                    "SUMCAST_KEY_FILE=" + site.key_file()};
    spawning.output = rank == 0 ? lab::Redirect::pipe() : lab::Redirect::null();
    auto process = site.cluster().spawn(lab::Node::of_worker(static_cast<int>(rank)),
                                        train_argv(program_path(), options), spawning);
    if (!process) return fail(process.error());
    members.push_back(std::move(*process));
  }
  std::vector<std::string> lines;
  for (uint32_t epoch = 0; epoch < options.epochs; ++epoch) {
    auto line = members[0].read_line(kEpochPatience);
    if (!line) return fail(line.error().within("worker 0"));
    lines.push_back(std::move(*line));
  }
  for (uint32_t rank = 0; rank < world; ++rank) {
    const auto ended = members[rank].wait(kLeavePatience);
    if (!ended) return fail(ended.error());
    if (!ended->ok()) {
      return fail(ErrorCode::kAborted, fmt::format("rank {}: {}", rank, ended->describe()));
    }
  }
  return compare_run_of(lines);
}

nlohmann::ordered_json json_of(const CompareRow& row) {
  return {{"seconds", row.seconds.median},      {"seconds_min", row.seconds.min},
          {"seconds_max", row.seconds.max},     {"seconds_of_runs", row.seconds_of_runs},
          {"faster_by", row.faster_by.median},  {"faster_by_min", row.faster_by.min},
          {"faster_by_max", row.faster_by.max}, {"step_ms", row.step_ms},
          {"hot_share", row.hot_share}};
}

/// A median, and where there are several values how far they lie apart.
std::string text_of(const CompareSpread& spread, bool has_several, const char* unit) {
  if (!has_several) return fmt::format("{:.2f}{}", spread.median, unit);
  return fmt::format("{:.2f}{} ({:.2f}-{:.2f})", spread.median, unit, spread.min, spread.max);
}

void print_table(const std::vector<CompareRow>& rows, double target, const TrainOptions& options,
                 const CompareFlags& flags) {
  using report::Align;
  report::Table table({{"way", Align::kLeft},
                       {"time to the loss", Align::kRight},
                       {"faster by", Align::kRight},
                       {"time per step", Align::kRight},
                       {"hot", Align::kRight}});
  const bool has_several = flags.repeats > 1;
  for (const CompareRow& row : rows) {
    table.add_row({row.way, text_of(row.seconds, has_several, " s"),
                   text_of(row.faster_by, has_several, "x"), fmt::format("{:.2f} ms", row.step_ms),
                   fmt::format("{:.0f} %", 100 * row.hot_share)});
  }
  fmt::print(
      "{} on {} until the loss on held-out data is {:.4f}: {} workers, {} server{}, {}{}\n{}",
      options.model, options.data, target, options.workers, options.servers,
      options.servers == 1 ? "" : "s",
      flags.rate.empty() ? std::string("links without a limit") : flags.rate,
      has_several ? fmt::format("; medians of {} trainings each way (least-most)", flags.repeats)
                  : std::string(),
      table.to_string());
}

Result<void> show(const std::array<Way, 2>& ways, const TrainOptions& options,
                  const CompareFlags& flags) {
  const CompareRun& first = ways[0].runs[0];
  const double best = *std::ranges::min_element(first.losses);
  const double target = flags.until_loss > 0 ? flags.until_loss : best;
  if (!first.seconds_until(target)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("--until-loss {}: after {} epochs the best is {:.4f}", target,
                            options.epochs, best));
  }
  std::vector<CompareRow> rows;
  for (const Way& way : ways) {
    auto row = compare_row(way.name, way.runs, ways[0].runs, target);
    if (!row) return fail(row.error());
    rows.push_back(std::move(*row));
  }
  if (!options.json) {
    print_table(rows, target, options, flags);
    return {};
  }
  for (const CompareRow& row : rows) {
    nlohmann::ordered_json json = {{"path", row.way},
                                   {"model", options.model},
                                   {"data", options.data},
                                   {"workers", options.workers},
                                   {"servers", options.servers},
                                   {"rate", flags.rate},
                                   {"repeats", flags.repeats},
                                   {"until_loss", target}};
    json.update(json_of(row));
    json["losses"] = first.losses;
    fmt::print("{}\n", json.dump());
  }
  return {};
}

CompareSpread spread_of(std::span<const double> values) {
  const Spread all = spread(values);
  return {median(values), all.min, all.max};
}

}  // namespace

std::optional<double> CompareRun::seconds_until(double loss) const {
  double all = 0;
  for (size_t epoch = 0; epoch < losses.size(); ++epoch) {
    all += seconds[epoch];
    if (losses[epoch] <= loss) return all;
  }
  return std::nullopt;
}

Result<CompareRow> compare_row(const std::string& way, const std::vector<CompareRun>& runs,
                               const std::vector<CompareRun>& base, double loss) {
  CompareRow row;
  row.way = way;
  std::vector<double> ratios, steps, shares;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].losses != base[0].losses || base[i].losses != base[0].losses) {
      return fail(ErrorCode::kMismatch, "the ways came to different losses");
    }
    const auto seconds = runs[i].seconds_until(loss), before = base[i].seconds_until(loss);
    if (!seconds || !before) return fail(ErrorCode::kInvalidArgument, "no epoch has that loss");
    row.seconds_of_runs.push_back(*seconds);
    ratios.push_back(*before / *seconds);
    const double all = std::accumulate(runs[i].seconds.begin(), runs[i].seconds.end(), 0.0);
    const size_t epochs = std::max<size_t>(runs[i].seconds.size(), 1);
    steps.push_back(1e3 * all / static_cast<double>(runs[i].steps * epochs));
    shares.push_back(runs[i].hot_share);
  }
  row.seconds = spread_of(row.seconds_of_runs);
  row.faster_by = spread_of(ratios);
  row.step_ms = median(steps);
  row.hot_share = median(shares);
  return row;
}

Result<CompareRun> compare_run_of(const std::vector<std::string>& lines) {
  CompareRun run;
  for (const std::string& line : lines) {
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    try {
      run.losses.push_back(json.at("test_loss"));
      run.seconds.push_back(json.at("seconds"));
      run.steps = json.at("steps");
      run.hot_share = json.at("hot_share");
    } catch (const nlohmann::json::exception&) {
      return fail(ErrorCode::kInternal, fmt::format("worker 0 said \"{}\"", line));
    }
  }
  return run;
}

std::vector<std::string> train_argv(const std::string& program, const TrainOptions& options) {
  std::vector<std::string> argv = {program, "train", "--json"};
  const auto add = [&](const char* flag, const auto& value) { add_flag(argv, flag, value); };
  add("--data", options.data);
  add("--rows", options.rows);
  add("--format", options.format);
  add("--test", options.test);
  add("--test-share", options.test_share);
  add("--model", options.model);
  add("--factors", options.factors);
  add("--hidden", options.hidden);
  add("--dense-rate", options.dense_rate);
  add("--vector", options.vector_width);
  add("--window", options.window);
  add("--negatives", options.negatives);
  add("--min-count", options.count_min);
  add("--thin", options.thin);
  add("--optimizer", options.optimizer);
  add("--rate", options.rate);
  add("--epochs", options.epochs);
  add("--batch", options.batch);
  add("--order", options.order);
  add("--servers", options.servers);
  add("--hot", options.hot);
  add("--sample", options.sample);
  add("--track", options.track);
  add("--wire", options.wire);
  add("--row-wire", options.row_wire);
  add("--staleness", options.staleness);
  add("--seed", options.seed);
  return argv;
}

Result<void> run_comparison(const TrainOptions& options, const CompareFlags& flags) {
  if (auto fine = options.validate(); !fine) return fine;
  if (options.asynchronous) {
    return fail(ErrorCode::kInvalidArgument,
                "--compare: not with --asynchronous, which has no hot keys to compare");
  }
  constexpr uint64_t kRateMin = 1'000'000;
  if (!flags.rate.empty() && runtime::parse_rate(flags.rate).value_or(0) < kRateMin) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("--link {}: it must be at least 1mbit, such as 100mbit or 1gbit", flags.rate));
  }
  BenchFlags bench;
  bench.workers = options.workers + options.servers;
  bench.rate = flags.rate;
  const auto plan = plan_bench(bench);
  if (!plan) return fail(plan.error());
  auto site = BenchSite::create(*plan);
  if (!site) return fail(site.error());
  std::array<Way, 2> ways = {Way{"servers", "0", {}},
                             Way{"dual", options.hot == "0" ? "auto" : options.hot, {}}};
  for (uint32_t repeat = 0; repeat < flags.repeats; ++repeat) {
    for (Way& way : ways) {
      TrainOptions mine = options;
      mine.hot = way.hot;
      auto run = train_once(**site, mine);
      if (!run) return fail(run.error().within(way.name));
      way.runs.push_back(std::move(*run));
    }
  }
  return show(ways, options, flags);
}

}  // namespace sumcast::cli

#include "cli/train_compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "cli/bench_site.h"
#include "cli/bench_statistics.h"
#include "cli/child_flags.h"
#include "report/table.h"

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

double median_until(const Way& way, double loss) {
  std::vector<double> seconds;
  for (const CompareRun& run : way.runs) seconds.push_back(*run.seconds_until(loss));
  return median(seconds);
}

Result<void> show(const std::array<Way, 2>& ways, const TrainOptions& options,
                  const CompareFlags& flags) {
  for (const Way& way : ways) {
    for (const CompareRun& run : way.runs) {
      if (run.losses == ways[0].runs[0].losses) continue;
      return fail(ErrorCode::kMismatch, "the ways came to different losses");
    }
  }
  const CompareRun& first = ways[0].runs[0];
  const double best = *std::ranges::min_element(first.losses);
  const double target = flags.until_loss > 0 ? flags.until_loss : best;
  if (!first.seconds_until(target)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("--until-loss {}: after {} epochs the best is {:.4f}", target,
                            options.epochs, best));
  }
  using report::Align;
  report::Table table({{"way", Align::kLeft},
                       {"time to the loss", Align::kRight},
                       {"faster by", Align::kRight},
                       {"time per step", Align::kRight},
                       {"hot", Align::kRight}});
  const double slow = median_until(ways[0], target);
  for (const Way& way : ways) {
    const double seconds = median_until(way, target);
    const CompareRun& run = way.runs.front();
    double all = 0;
    for (const double one : run.seconds) all += one;
    const double step_ms =
        1e3 * all / static_cast<double>(run.steps * std::max<size_t>(run.seconds.size(), 1));
    table.add_row({way.name, fmt::format("{:.2f} s", seconds),
                   fmt::format("{:.2f}x", slow / seconds), fmt::format("{:.2f} ms", step_ms),
                   fmt::format("{:.0f} %", 100 * run.hot_share)});
    if (!options.json) continue;
    const nlohmann::ordered_json json = {
        {"path", way.name},           {"model", options.model},     {"data", options.data},
        {"workers", options.workers}, {"servers", options.servers}, {"rate", flags.rate},
        {"until_loss", target},       {"seconds", seconds},         {"faster_by", slow / seconds},
        {"step_ms", step_ms},         {"hot_share", run.hot_share}, {"losses", run.losses}};
    fmt::print("{}\n", json.dump());
  }
  if (options.json) return {};
  fmt::print("{} on {} until the loss on held-out data is {:.4f}: {} workers, {} server{}, {}\n{}",
             options.model, options.data, target, options.workers, options.servers,
             options.servers == 1 ? "" : "s",
             flags.rate.empty() ? std::string("links without a limit") : flags.rate,
             table.to_string());
  return {};
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

#include "cli/convergence_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <memory>
#include <numeric>
#include <thread>

#include "cli/convergence_cell.h"
#include "cli/exit_codes.h"
#include "cli/result_lines.h"
#include "pipeline/local_ranks.h"
#include "report/progress.h"
#include "runtime/clock.h"
#include "runtime/environment.h"
#include "trainer/async_train.h"

namespace sumcast::cli {
namespace {

/// Ranks are threads of this process; one that is this late has been lost.
constexpr Duration kPatience = 120s;
constexpr size_t kLossesAveraged = 20;
/// What results without mention of it have been run with.
constexpr uint64_t kWarmupOfOldGrids = 2;

struct ConvergenceFlags {
  uint32_t workers = 4;
  int epochs = 3;
  int batch = 128;
  int images = 0;
  uint32_t seeds = 3;
  uint64_t warmup_steps = pipeline::PipelineOptions{}.warmup_steps;
  std::vector<std::string> settings = {"sgd", "adamw"};
  std::vector<std::string> variants;  ///< Empty: all.
  std::string results = "sumcast-convergence.jsonl";
  std::string data = trainer::kFashionMnistDirectory;
  bool json = false;
};

/// What is to run, found to be possible.
struct Grid {
  std::vector<const ConvergenceSetting*> settings;
  std::vector<const ConvergenceVariant*> variants;
  trainer::TrainOptions base;
  std::string text;
};

Result<Grid> grid_of(const ConvergenceFlags& flags) {
  Grid grid;
  for (const std::string& name : flags.settings) {
    const ConvergenceSetting* const found = setting_from_name(name);
    if (found == nullptr) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("no setting '{}'; there are {}", name, setting_names()));
    }
    grid.settings.push_back(found);
  }
  for (const std::string& name : flags.variants) {
    const ConvergenceVariant* const found = variant_from_name(name);
    if (found == nullptr) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("no variant '{}'; there are {}", name, variant_names()));
    }
    grid.variants.push_back(found);
  }
  if (flags.variants.empty()) {
    for (const ConvergenceVariant& variant : convergence_variants()) {
      grid.variants.push_back(&variant);
    }
  }
  if (flags.workers < 1 || flags.workers > 64) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("--workers must be 1 to 64, not {}", flags.workers));
  }
  if (flags.seeds < 1) return fail(ErrorCode::kInvalidArgument, "--seeds must be at least 1");
  grid.base.epochs = flags.epochs;
  grid.base.batch = flags.batch;
  grid.base.limit_images = flags.images;
  grid.base.pipeline.warmup_steps = flags.warmup_steps;
  if (const auto problems = grid.base.validate(); !problems.empty()) {
    return fail(ErrorCode::kInvalidArgument, problems.front());
  }
  grid.text =
      fmt::format("{} workers, {} epochs of {} images, batch {}", flags.workers, flags.epochs,
                  flags.images == 0 ? "all" : std::to_string(flags.images), flags.batch);
  if (flags.warmup_steps != kWarmupOfOldGrids) {
    grid.text += fmt::format(", {} synchronous steps first", flags.warmup_steps);
  }
  return grid;
}

/// What earlier calls have left, of this grid only; lines that are none are an error.
Result<std::vector<ConvergenceRun>> earlier_runs(const std::string& path, const Grid& grid) {
  auto runs = read_result_lines<ConvergenceRun>(path, run_from_json);
  if (runs) std::erase_if(*runs, [&](const auto& run) { return run.grid != grid.text; });
  return runs;
}

/// Ranks as threads of this process; the outcome of the first.
Result<trainer::TrainOutcome> train_together(const trainer::FashionMnist& data, uint32_t workers,
                                             const trainer::TrainOptions& options) {
  pipeline::LocalRanks ranks(workers, kPatience);
  std::vector<Result<trainer::TrainOutcome>> outcomes(workers);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < workers; ++rank) {
    threads.emplace_back([&, rank] {
      pipeline::LocalAverager averager(ranks, rank);
      const trainer::Place place{Rank(static_cast<uint16_t>(rank)), static_cast<uint16_t>(workers)};
      outcomes[rank] = trainer::train(data, place, options, averager, {}, runtime::monotonic_now);
      if (!outcomes[rank]) ranks.give_up(outcomes[rank].error().what);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& outcome : outcomes) {
    if (!outcome) return fail(outcome.error());
  }
  return std::move(outcomes[0]);
}

Result<ConvergenceRun> train_once(const trainer::FashionMnist& data, const Grid& grid,
                                  uint32_t workers, const ConvergenceSetting& setting,
                                  const ConvergenceVariant& variant, uint64_t seed) {
  const size_t output = static_cast<size_t>(grid.base.hidden.back() + 1) * trainer::kClasses;
  size_t parameters = 0;
  auto inputs = static_cast<size_t>(data.training.pixels_per_image());
  for (const int width : grid.base.hidden) {
    parameters += (inputs + 1) * static_cast<size_t>(width);
    inputs = static_cast<size_t>(width);
  }
  trainer::TrainOptions options =
      options_for(grid.base, setting, variant, parameters + output, output);
  options.seed = seed;
  Result<trainer::TrainOutcome> outcome =
      variant.turns ? trainer::train_by_turns(data, static_cast<uint16_t>(workers), options)
                    : train_together(data, workers, options);
  if (!outcome) return fail(outcome.error());
  const size_t averaged = std::min(kLossesAveraged, outcome->losses.size());
  ConvergenceRun run;
  run.setting = setting.name;
  run.variant = variant.name;
  run.seed = seed;
  run.grid = grid.text;
  run.accuracy = outcome->accuracy.value_or(0);
  run.epochs = outcome->epoch_accuracies;
  run.loss = std::accumulate(outcome->losses.end() - static_cast<ptrdiff_t>(averaged),
                             outcome->losses.end(), 0.0) /
             static_cast<double>(averaged);
  return run;
}

Result<std::vector<ConvergenceRun>> run_grid(const ConvergenceFlags& flags, const Grid& grid) {
  const Result<trainer::FashionMnist> data = trainer::load_fashion_mnist(flags.data);
  if (!data) return fail(data.error());
  Result<std::vector<ConvergenceRun>> runs = earlier_runs(flags.results, grid);
  if (!runs) return runs;
  std::ofstream file(flags.results, std::ios::app);
  if (!file) {
    return fail(ErrorCode::kInvalidArgument, "cannot write the results to " + flags.results);
  }
  const bool colour = !runtime::environment("NO_COLOR").has_value();
  report::Progress progress(report::probe_terminal(STDERR_FILENO, colour));
  progress.begin("runs", flags.seeds * grid.settings.size() * grid.variants.size(),
                 runtime::monotonic_now());
  uint64_t done = 0;
  // Seeds outermost: whoever stops early has all variants, with fewer seeds.
  for (uint64_t seed = 1; seed <= flags.seeds; ++seed) {
    for (const ConvergenceSetting* setting : grid.settings) {
      for (const ConvergenceVariant* variant : grid.variants) {
        progress.update(++done, runtime::monotonic_now());
        const bool known = std::ranges::any_of(*runs, [&](const ConvergenceRun& run) {
          return run.seed == seed && run.setting == setting->name && run.variant == variant->name;
        });
        if (known) continue;
        Result<ConvergenceRun> run =
            train_once(*data, grid, flags.workers, *setting, *variant, seed);
        if (!run) {
          return fail(run.error().within(fmt::format("{}, {}", setting->name, variant->name)));
        }
        file << to_json_line(*run) << std::endl;
        if (flags.json) {
          fmt::print("{}\n", to_json_line(*run));
          std::fflush(stdout);
        }
        runs->push_back(std::move(*run));
      }
    }
  }
  progress.finish(runtime::monotonic_now());
  return runs;
}

int run_command(const ConvergenceFlags& flags) {
  const auto complain = [](const Error& error) {
    fmt::print(stderr, "sumcast bench convergence: {}\n", error.what);
    return exit_code_of(error);
  };
  const Result<Grid> grid = grid_of(flags);
  if (!grid) return complain(grid.error());
  const Result<std::vector<ConvergenceRun>> runs = run_grid(flags, *grid);
  if (!runs) return complain(runs.error());
  if (!flags.json) fmt::print("{}\n{}", grid->text, convergence_table(*runs));
  return 0;
}

}  // namespace

CLI::App* add_convergence_command(CLI::App& bench, int& exit_code) {
  CLI::App* const command = bench.add_subcommand(
      "convergence", "Accuracy of training with late and lossy gradients, on Fashion-MNIST");
  const auto flags = std::make_shared<ConvergenceFlags>();
  command->footer(
      "Examples:\n"
      "  sumcast bench convergence --setting sgd --variant sync,plain,corrected --seeds 1\n"
      "  sumcast bench convergence --images 10000 --epochs 1 --json");
  command->add_option("--workers", flags->workers, "Ranks, as threads with exact means")
      ->capture_default_str();
  command->add_option("--epochs", flags->epochs, "Passes over the images")->capture_default_str();
  command->add_option("--batch", flags->batch, "Images per worker and step")->capture_default_str();
  command->add_option("--images", flags->images, "Train on the first so many; 0: all")
      ->capture_default_str();
  command
      ->add_option("--warmup-steps", flags->warmup_steps,
                   "Synchronous steps before gradients are late")
      ->capture_default_str();
  command->add_option("--seeds", flags->seeds, "Runs of each, seeds from 1")->capture_default_str();
  command->add_option("--setting", flags->settings, "Comma-separated: " + setting_names())
      ->delimiter(',')
      ->capture_default_str();
  command
      ->add_option("--variant", flags->variants,
                   "Comma-separated; all if not given: " + variant_names())
      ->delimiter(',');
  command
      ->add_option("--results", flags->results,
                   "Runs are appended here; those that it holds already are not repeated")
      ->capture_default_str();
  command->add_option("--data", flags->data, "Directory of Fashion-MNIST's four files")
      ->capture_default_str();
  command->add_flag("--json", flags->json, "One object per run");
  command->callback([flags, &exit_code] { exit_code = run_command(*flags); });
  return command;
}

}  // namespace sumcast::cli

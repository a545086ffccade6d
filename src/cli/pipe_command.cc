#include "cli/pipe_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>

#include "cli/exit_codes.h"
#include "cli/output_file.h"
#include "cli/pipe_accuracy.h"
#include "cli/pipe_bench.h"
#include "cli/pipe_print.h"
#include "cli/pipe_worker.h"
#include "cli/result_lines.h"
#include "lab/interrupt.h"
#include "runtime/clock.h"
#include "runtime/environment.h"
#include "runtime/units.h"
#include "trainer/workload.h"

namespace sumcast::cli {
namespace {

struct PipeFlags {
  PipeBenchOptions options;
  std::vector<std::string> delays = {"0ms"};
  std::string patience;
  bool quick = false, decisions = false;
};

int complain(const std::string& what, int code) {
  fmt::print(stderr, "sumcast bench pipeline: {}\n", what);
  return code;
}

Result<void> write_report(const PipeBenchOptions& options, const std::vector<PipeRow>& rows) {
  report::PipelineReportData data = pipe_report(rows);
  if (!options.accuracy.empty()) {
    const auto runs = read_result_lines<ConvergenceRun>(options.accuracy, run_from_json);
    if (!runs) return fail(runs.error());
    if (auto added = add_accuracy(rows, *runs, data); !added) {
      return fail(added.error().within(options.accuracy));
    }
  }
  data.setting = fmt::format("sumcast {} bench pipeline, workers in network namespaces, {}",
                             SUMCAST_VERSION, runtime::wall_time_text());
  std::ofstream file(options.report, std::ios::binary | std::ios::trunc);
  file << report::pipeline_report_html(data) << std::flush;
  if (file) return {};
  return fail(ErrorCode::kSystem, "cannot write the report " + options.report);
}

/// Everything as the bench wants it, or what is wrong.
Result<PipeBenchOptions> options_from(const PipeFlags& flags) {
  PipeBenchOptions options = flags.options;
  if (flags.quick) options.scope = PipeScope::kQuick;
  options.delays.clear();
  for (const std::string& text : flags.delays) {
    const Result<Duration> delay = runtime::parse_duration(text);
    if (!delay) return fail(delay.error().within("--delay"));
    options.delays.push_back(*delay);
  }
  for (const std::string* path : {&options.results, &options.report, &options.predictions}) {
    if (auto writable = check_writable(*path); !writable) return fail(writable.error());
  }
  if (flags.patience.empty()) return options;
  const Result<Duration> patience = runtime::parse_duration(flags.patience);
  if (!patience) return fail(patience.error().within("--for"));
  if (options.results.empty()) {
    return fail(ErrorCode::kInvalidArgument, "--for leaves cells for another run: give --results");
  }
  options.patience = *patience;
  return options;
}

/// One run after the other, all within one patience.
Result<PipeOutcome> run_all(std::vector<PipeBenchOptions> runs, report::Progress& progress,
                            const PipeRowFn& on_row) {
  const Instant start = runtime::monotonic_now();
  PipeOutcome all;
  for (PipeBenchOptions& run : runs) {
    if (run.patience) {
      run.patience = std::max(Duration{0}, *run.patience - (runtime::monotonic_now() - start));
    }
    Result<PipeOutcome> outcome = run_pipe_bench(run, progress, on_row);
    if (!outcome) return outcome;
    std::ranges::move(outcome->rows, std::back_inserter(all.rows));
    all.left += outcome->left;
  }
  return all;
}

int bars_of(const std::vector<PipeBenchOptions>& runs) {
  size_t bars = 0;
  for (const PipeBenchOptions& run : runs) {
    bars += 2 * run.models.size() * run.workers.size() * run.delays.size();
  }
  return static_cast<int>(bars);
}

int run_command(const PipeFlags& flags) {
  const Result<PipeBenchOptions> read = options_from(flags);
  if (!read) return complain(read.error().what, kExitUsage);
  const PipeBenchOptions& options = *read;
  const std::vector<std::string> problems = options.validate();
  for (const std::string& problem : problems) complain(problem, kExitUsage);
  if (!problems.empty()) return kExitUsage;
  const lab::ScopedInterrupt interrupt;
  const bool colour = !runtime::environment("NO_COLOR").has_value();
  report::Progress progress(report::probe_terminal(STDERR_FILENO, colour));
  const auto runs = flags.decisions ? options.decisions() : std::vector{options};
  progress.expect_bars(bars_of(runs));
  const auto on_row = [&](const PipeRow& row) {
    if (!options.json) return;
    fmt::print("{}\n", to_json_line(row));
    std::fflush(stdout);
  };
  const auto outcome = run_all(runs, progress, on_row);
  if (!outcome) {
    const int signal = lab::ScopedInterrupt::signal_number();
    if (signal != 0) return complain("interrupted", 128 + signal);
    return complain(outcome.error().what, exit_code_of(outcome.error()));
  }
  if (!options.json) fmt::print("{}", pipe_text(outcome->rows));
  if (outcome->left > 0) {
    fmt::print(stderr, "{} cells left: the same command goes on with them\n", outcome->left);
  }
  if (options.report.empty()) return 0;
  const Result<void> written = write_report(options, outcome->rows);
  return written ? 0 : complain(written.error().what, kExitFailed);
}

}  // namespace

CLI::App* add_pipe_command(CLI::App& bench, int& exit_code) {
  CLI::App* const command = bench.add_subcommand(
      "pipeline", "Step times of synchronous, overlapping and pipelined training, and predictions");
  const auto flags = std::make_shared<PipeFlags>();
  PipeBenchOptions* const options = &flags->options;
  command->footer(
      "Examples:\n"
      "  sumcast bench pipeline --quick\n"
      "  sumcast bench pipeline --model resnet18 --ratio 1,2 --delay 0ms,20ms --report steps.html\n"
      "  sumcast bench pipeline --decisions --results cells.jsonl --for 80s");
  command->add_option("--workers", options->workers, "How many, each in a namespace of its own")
      ->delimiter(',')
      ->capture_default_str();
  command
      ->add_option("--model", options->models,
                   "Computing and gradients shaped like: " + std::string(trainer::kWorkloadNames))
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--ratio", options->ratios, "A ring's all-reduce over computing; sets rates")
      ->delimiter(',')
      ->capture_default_str();
  command
      ->add_option(
          "--delay", flags->delays,
          "Of every datagram, each way, as 20ms; modes without datagrams are left out then")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--results", options->results,
                      "File to append predictions and cells to, and to go on from");
  command->add_option("--for", flags->patience, "Begin no more links after so long, as 80s");
  command->add_flag("--quick", flags->quick, "Fewer modes, shorter cells");
  CLI::Option* const decisions = command->add_flag(
      "--decisions", flags->decisions,
      "44 choices of a mode in about two hours: how often is the predicted best the best?");
  for (const char* name : {"--workers", "--model", "--ratio", "--delay", "--quick"}) {
    decisions->excludes(command->get_option(name));
  }
  command->add_option("--report", options->report, "HTML file with time lines and predictions");
  command->add_option("--accuracy", options->accuracy,
                      "For the report: results of sumcast bench convergence");
  command->add_option("--predictions", options->predictions,
                      "File to append predictions to before the first cell runs");
  command->add_flag("--json", options->json, "One object per cell");
  command->callback([flags, &exit_code] { exit_code = run_command(*flags); });
  return command;
}

void add_pipe_worker_command(CLI::App& app, int& exit_code) {
  // An empty group hides it from the help.
  CLI::App* const worker =
      app.add_subcommand("pipe-worker", "One worker of bench pipeline")->group("");
  worker->callback([&exit_code] { exit_code = run_pipe_worker(); });
}

}  // namespace sumcast::cli

#include "cli/hot_command.h"

#include <unistd.h>

#include <cstdio>
#include <memory>

#include "cli/exit_codes.h"
#include "cli/hot_print.h"
#include "cli/hot_report.h"
#include "cli/hot_study.h"
#include "cli/output_file.h"
#include "report/progress.h"
#include "runtime/clock.h"
#include "runtime/environment.h"

namespace sumcast::cli {
namespace {

/// Turns calls that name what is being done into one bar per name.
HotProgress bars_of(report::Progress& progress) {
  auto current = std::make_shared<std::string>();
  return [&progress, current](const std::string& label, uint64_t done, uint64_t total) {
    const Instant now = runtime::monotonic_now();
    if (total == 0) return;  // Nobody knows how long the file is.
    if (label != *current) progress.begin(label, total, now);
    *current = label;
    progress.update(done, now);
    if (done == total) progress.finish(now);
  };
}

}  // namespace

Result<std::string> run_hot(const HotOptions& asked) {
  report::Progress progress(
      report::probe_terminal(STDERR_FILENO, !runtime::environment("NO_COLOR")));
  const HotProgress report_progress = bars_of(progress);
  const auto data = load_hot_data(asked, report_progress);
  if (!data) return fail(data.error());
  HotOptions options = asked;
  if (options.row_width == 0) options.row_width = data->row_width;
  const HotStudy study = study_hot_keys(options, *data, report_progress);
  if (!options.out.empty()) {
    auto written = write_output_file(options.out, placement_json(options, study));
    if (!written) return fail(written.error());
  }
  if (!options.report.empty()) {
    auto written = write_output_file(options.report, hot_report(options, study));
    if (!written) return fail(written.error());
  }
  return options.json ? hot_json(options, study) : hot_text(options, study);
}

void add_hot_command(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<HotOptions>();
  CLI::App* const hot = app.add_subcommand(
      "hot",
      "Find a data set's hot keys, what summing them in the network saves, and their places");
  hot->footer(
      "Examples:\n"
      "  sumcast hot debian-packages\n"
      "  sumcast hot debian-packages --model word2vec --servers 1\n"
      "  sumcast hot clicks.tsv --workers 8 --batch 256 --servers 1 --report hot.html\n"
      "  sumcast hot train.svm --sample 8% --out placement.json --json");
  hot->add_option("data", options->source,
                  "A file; debian-packages (apt's descriptions); or a generator: ctr, flat")
      ->required();
  const auto add = [&](const char* flag, auto& value, const char* help) {
    hot->add_option(flag, value, help)->capture_default_str();
  };
  add("--format", options->format, "auto, libsvm, criteo, avazu, text or packages");
  hot->add_option("--model", options->model,
                  "What trains on it, as of sumcast train: its negative samples and biases count");
  add("--sample", options->sample, "Share of the rows that the hot keys are chosen from");
  add("--batch", options->batch, "Rows that a worker takes per step");
  add("--workers", options->workers, "Workers who contribute to a sum");
  add("--rounds-held", options->rounds_held, "Rounds that sums stay in the aggregator");
  add("--capacity", options->capacity, "Places for keys; 0: a tenth of the keys");
  add("--fan-in", options->fan_in_min, "Place keys with at least this expected fan-in");
  add("--servers", options->servers,
      "Above 0: size the hot set for the busiest link, beside so many servers");
  add("--arrays", options->arrays, "Register arrays of the switch");
  add("--row-width", options->row_width, "Floats per key; 0: the model's, or 1");
  add("--doubled", options->doubled, "Share of the hot keys that get two slots");
  add("--rows", options->rows, "Read or generate so many rows; 0: all, or 200,000");
  add("--vocabulary", options->vocabulary, "Keys of a generator");
  add("--seed", options->seed, "Of the generator and of the sample");
  hot->add_flag("--json", options->json, "One JSON object");
  hot->add_option("--out", options->out, "Write the placement there, as JSON");
  hot->add_option("--report", options->report, "Write a page with curves there, as HTML");
  hot->callback([options, &exit_code] {
    const auto problems = options->validate();
    for (const std::string& problem : problems) {
      std::fprintf(stderr, "sumcast hot: %s\n", problem.c_str());
    }
    exit_code = kExitUsage;
    if (!problems.empty()) return;
    const auto text = run_hot(*options);
    if (text) {
      std::fputs(text->c_str(), stdout);
    } else {
      std::fprintf(stderr, "sumcast hot: %s\n", text.error().what.c_str());
    }
    exit_code = text ? 0 : exit_code_of(text.error());
  });
}

}  // namespace sumcast::cli

#include "cli/pipe_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "auth/key_file.h"
#include "cli/bench_site.h"
#include "cli/pipe_place.h"
#include "cli/result_lines.h"
#include "lab/privileges.h"
#include "runtime/clock.h"
#include "trainer/workload.h"

namespace sumcast::cli {
namespace {

PipeEffort effort_of(PipeScope scope) {
  PipeEffort effort;
  effort.scope = scope;
  if (scope == PipeScope::kAll) return effort;
  effort.alone_steps = 6;
  effort.probe_repeats = 3;
  effort.warm_steps = 2;
  effort.steps_min = 3;
  effort.cell_seconds = 0.5;
  if (scope == PipeScope::kDecisions) {
    effort.alone_steps = 4;
    effort.contest_passes = 5;
  }
  return effort;
}

/// The same for steps of computing that take so long: a few short ones would say little.
PipeEffort scaled(PipeEffort effort, double compute_s) {
  constexpr double kAloneSeconds = 0.5, kProbeAloneSeconds = 0.3;
  constexpr uint32_t kStepsMax = 40;
  const auto steps = [&](double seconds, uint32_t least) {
    const double wanted = std::min(seconds / compute_s, double{kStepsMax});
    return std::max(least, static_cast<uint32_t>(wanted));
  };
  effort.alone_steps = steps(kAloneSeconds, effort.alone_steps);
  effort.probe_alone_steps = steps(kProbeAloneSeconds, effort.probe_alone_steps);
  return effort;
}

/// One model, one number of workers, one delay.
struct Block {
  std::string model;
  uint32_t workers = 0;
  Duration delay{0};
};

class PipeBench {
 public:
  PipeBench(const PipeBenchOptions& options, report::Progress& progress, const PipeRowFn& on_row,
            std::string key_file, std::vector<PipeRow> known)
      : options_(options),
        effort_(effort_of(options.scope)),
        progress_(progress),
        on_row_(on_row),
        key_file_(std::move(key_file)),
        known_(std::move(known)) {
    if (options.patience) deadline_ = runtime::monotonic_now() + *options.patience;
  }

  Result<PipeOutcome> run() {
    for (const std::string& model : options_.models) {
      for (const uint32_t workers : options_.workers) {
        for (const Duration delay : options_.delays) {
          if (auto done = run_block({model, workers, delay}); !done) {
            return fail(done.error().within(fmt::format("{}, {} workers{}", model, workers,
                                                        delay > Duration{0} ? ", delayed" : "")));
          }
        }
      }
    }
    return std::move(outcome_);
  }

 private:
  bool time_is_up() const { return runtime::monotonic_now() >= deadline_; }

  std::vector<plan::Mode> modes_of(const Block& block) const {
    return pipe_modes(options_.scope, block.delay > Duration{0});
  }

  /// All cells of the block, with what the results file says of them.
  std::vector<PipeRow> cells_of(const Block& block) const {
    std::vector<PipeRow> rows;
    for (const double ratio : options_.ratios) {
      for (const plan::Mode& mode : modes_of(block)) {
        PipeRow row;
        row.model = block.model;
        row.workers = block.workers;
        row.delay = block.delay;
        row.ratio = ratio;
        row.mode = mode;
        // The last line of a cell is its measurement, if there is one.
        for (const PipeRow& known : known_) {
          if (same_cell(known, row)) row = known;
        }
        rows.push_back(std::move(row));
      }
    }
    return rows;
  }

  Result<void> run_block(const Block& block) {
    std::vector<PipeRow> rows = cells_of(block);
    const auto unforeseen = [](const PipeRow& row) { return row.predicted.step_s == 0; };
    if (std::ranges::any_of(rows, unforeseen)) {
      if (time_is_up()) {
        outcome_.left += rows.size();
        return {};
      }
      if (auto done = predict(block, rows); !done) return done;
      if (auto written = write_down(rows, options_.predictions); !written) return written;
      if (auto written = write_down(rows, options_.results); !written) return written;
    }
    return measure(block, rows);
  }

  /// Calibrates over links of every ratio, then predicts all cells anew: those of one block rest on
  /// one calibration.
  Result<void> predict(const Block& block, std::vector<PipeRow>& rows) {
    const auto layers = trainer::workload_layers(block.model).value();
    double bytes = 0;
    for (const trainer::DenseShape& l : layers) bytes += 4.0 * l.inputs * l.outputs;
    progress_.begin(fmt::format("{}, {} workers: calibration", block.model, block.workers),
                    1 + options_.ratios.size(), runtime::monotonic_now());
    const Result<double> compute_s = computing_alone(block.model, block.workers, key_file_);
    if (!compute_s) return fail(compute_s.error());
    std::vector<plan::Calibration> networks;
    std::vector<uint64_t> rates;
    PipeCalibration calibration;
    for (const double ratio : options_.ratios) {
      progress_.update(networks.size() + 1, runtime::monotonic_now());
      rates.push_back(rate_for_ratio(ratio, bytes, *compute_s, block.workers));
      auto place = PipePlace::open(
          {block.model, block.workers, ratio, block.delay, rates.back(), *compute_s},
          scaled(effort_, *compute_s), key_file_);
      if (!place) return fail(place.error());
      plan::Calibration& network = networks.emplace_back();
      if (auto done = (*place)->calibrate(network, calibration.computing); !done) {
        return fail(done.error().within(fmt::format("ratio {}", ratio)));
      }
    }
    progress_.finish(runtime::monotonic_now());
    const size_t per_place = rows.size() / options_.ratios.size();
    for (size_t i = 0; i < rows.size(); ++i) {
      PipeRow& row = rows[i];
      calibration.network = networks[i / per_place];
      row.rate_bps = rates[i / per_place];
      row.compute_s = calibration.computing.of({}).step_s;
      row.predicted = forecast(calibration, row.mode, row.workers);
      row.order = order_for(calibration, row.mode, row.workers);
      row.step_s = 0;  // What was measured beside other predictions counts no more.
    }
    return {};
  }

  static Result<void> write_down(const std::vector<PipeRow>& rows, const std::string& path) {
    if (path.empty()) return {};
    std::ofstream file(path, std::ios::app);
    for (const PipeRow& row : rows) file << to_json_line(row, true) << "\n";
    file.flush();
    if (file) return {};
    return fail(ErrorCode::kSystem, "cannot write to " + path);
  }

  Result<void> measure(const Block& block, std::vector<PipeRow>& rows) {
    progress_.begin(fmt::format("{}, {} workers: cells", block.model, block.workers), rows.size(),
                    runtime::monotonic_now());
    const size_t per_place = rows.size() / options_.ratios.size();
    for (size_t first = 0; first < rows.size(); first += per_place) {
      if (auto done = measure_place(std::span(rows).subspan(first, per_place), first); !done) {
        return done;
      }
    }
    progress_.finish(runtime::monotonic_now());
    hand_over(rows);
    return {};
  }

  /// So many passes over all rows; the medians count.
  ///
  /// @param bar  where the progress bar stands before and after.
  Result<void> measure_rows(PipePlace& place, const std::vector<PipeRow*>& rows, size_t passes,
                            double seconds, std::pair<double, double> bar) {
    std::vector<std::vector<PipeRow>> times(rows.size());
    const size_t total = passes * rows.size();
    for (size_t i = 0; i < total; ++i) {
      const size_t at = i % rows.size();
      PipeRow& row = times[at].emplace_back(*rows[at]);
      if (auto done = place.measure(row, seconds); !done) {
        return fail(
            done.error().within(fmt::format("ratio {}, {}", row.ratio, plan::describe(row.mode))));
      }
      const double share = static_cast<double>(i + 1) / static_cast<double>(total);
      progress_.update(static_cast<size_t>(bar.first + share * (bar.second - bar.first)),
                       runtime::monotonic_now());
    }
    for (size_t i = 0; i < rows.size(); ++i) *rows[i] = median_of(std::move(times[i]));
    return {};
  }

  /// All rows of one set of links that are not measured yet, one after the other, as often as it
  /// takes: a machine that was disturbed for a moment spoils one time of each. The median counts.
  Result<void> measure_place(std::span<PipeRow> rows, size_t before) {
    std::vector<PipeRow*> wanted;
    for (PipeRow& row : rows) {
      if (row.step_s == 0) wanted.push_back(&row);
    }
    if (wanted.empty()) return {};
    if (time_is_up()) {
      outcome_.left += wanted.size();
      return {};
    }
    const PipeRow& any = *wanted.front();
    auto place =
        PipePlace::open({any.model, any.workers, any.ratio, any.delay, any.rate_bps, any.compute_s},
                        effort_, key_file_);
    if (!place) return fail(place.error());
    const auto first = static_cast<double>(before), count = static_cast<double>(wanted.size());
    const double middle = first + (effort_.contest_passes > 0 ? count / 2 : count);
    if (auto done =
            measure_rows(**place, wanted, effort_.passes, effort_.cell_seconds, {first, middle});
        !done) {
      return done;
    }
    if (effort_.contest_passes > 0) {
      if (auto done = measure_rows(**place, contenders(wanted), effort_.contest_passes,
                                   effort_.contest_seconds, {middle, first + count});
          !done) {
        return done;
      }
    }
    for (const PipeRow* row : wanted) {
      on_row_(*row);
      if (auto written = write_down({*row}, options_.results); !written) return written;
    }
    return {};
  }

  /// Those that may turn out the fastest when they are measured for longer, and the one that was
  /// predicted to be. The smallest of many times that vary is too small: without a second look luck
  /// would name the best.
  static std::vector<PipeRow*> contenders(const std::vector<PipeRow*>& rows) {
    constexpr double kMargin = 0.1;
    double fastest_s = rows.front()->step_s;
    for (const PipeRow* row : rows) fastest_s = std::min(fastest_s, row->step_s);
    const PipeRow* const foreseen = *std::ranges::min_element(
        rows, {}, [](const PipeRow* row) { return row->predicted.step_s; });
    std::vector<PipeRow*> found;
    std::ranges::copy_if(rows, std::back_inserter(found), [&](const PipeRow* row) {
      return row == foreseen || row->step_s <= fastest_s * (1 + kMargin);
    });
    return found;
  }

  /// The one whose step took as long as half of the others at least, and no longer than the rest.
  static PipeRow median_of(std::vector<PipeRow> times) {
    const auto middle = times.begin() + static_cast<ptrdiff_t>(times.size() / 2);
    std::nth_element(times.begin(), middle, times.end(),
                     [](const PipeRow& a, const PipeRow& b) { return a.step_s < b.step_s; });
    return std::move(*middle);
  }

  /// The measured rows; those of a ratio decide if there are all of them.
  void hand_over(std::vector<PipeRow>& rows) {
    const auto measured = [](const PipeRow& row) { return row.step_s > 0; };
    const auto per_ratio = static_cast<ptrdiff_t>(rows.size() / options_.ratios.size());
    for (auto first = rows.begin(); first != rows.end(); first += per_ratio) {
      const bool all = std::all_of(first, first + per_ratio, measured);
      for (auto row = first; row != first + per_ratio; ++row) {
        if (!measured(*row)) continue;
        row->decides = all;
        outcome_.rows.push_back(*row);
      }
    }
  }

  const PipeBenchOptions& options_;
  const PipeEffort effort_;
  report::Progress& progress_;
  const PipeRowFn& on_row_;
  std::string key_file_;
  std::vector<PipeRow> known_;
  Instant deadline_ = Instant::never();
  PipeOutcome outcome_;
};

Result<std::vector<PipeRow>> read_results(const std::string& path) {
  if (path.empty()) return std::vector<PipeRow>();
  return read_result_lines<PipeRow>(path, row_from_json);
}

}  // namespace

std::vector<PipeBenchOptions> PipeBenchOptions::decisions() const {
  PipeBenchOptions near = *this, far = *this;
  near.scope = far.scope = PipeScope::kDecisions;
  near.workers = far.workers = {2, 4};
  far.models = {"short"};
  far.ratios = {0.5, 1, 2};
  far.delays = {2ms, 20ms};
  near.models = {"mlp", "resnet18", "vgg16", "transformer"};
  near.ratios = {0.5, 1, 2, 4};
  near.delays = {Duration{0}};
  return {far, near};
}

std::vector<std::string> PipeBenchOptions::validate() const {
  std::vector<std::string> problems;
  for (const uint32_t count : workers) {
    if (count >= 2 && count <= 16) continue;
    problems.push_back(fmt::format("--workers must be 2 to 16, not {}", count));
  }
  for (const std::string& model : models) {
    if (!trainer::workload_layers(model)) {
      problems.push_back(
          fmt::format("--model '{}' is not one of {}", model, trainer::kWorkloadNames));
    }
  }
  if (workers.empty()) problems.emplace_back("--workers names none");
  if (models.empty()) problems.emplace_back("--model names none");
  if (ratios.empty()) problems.emplace_back("--ratio names none");
  if (delays.empty()) problems.emplace_back("--delay names none");
  for (const double ratio : ratios) {
    if (!(ratio >= 0.05 && ratio <= 100)) {
      problems.push_back(fmt::format("--ratio must be 0.05 to 100, not {}", ratio));
    }
  }
  for (const Duration delay : delays) {
    if (delay < Duration{0} || delay >= 1s) {
      problems.push_back(
          fmt::format("--delay must be 0ms to 1s, not {} ms", delay.count() / 1'000'000));
    }
  }
  return problems;
}

Result<PipeOutcome> run_pipe_bench(const PipeBenchOptions& options, report::Progress& progress,
                                   const PipeRowFn& on_row) {
  Result<std::vector<PipeRow>> known = read_results(options.results);
  if (!known) return fail(known.error());
  if (const Result<void> entered = lab::enter_user_namespace_if_needed(); !entered) {
    return fail(entered.error().within("bench pipeline shapes links"));
  }
  if (const auto why = lab::why_no_namespaces()) {
    return fail(ErrorCode::kUnavailable,
                "bench pipeline shapes links, which needs network namespaces: " + *why);
  }
  Result<ScratchDirectory> scratch = ScratchDirectory::create();
  if (!scratch) return fail(scratch.error());
  const std::string key_file = scratch->path() + "/key";
  if (auto written = auth::write_key_file(key_file); !written) return fail(written.error());
  return PipeBench(options, progress, on_row, key_file, std::move(*known)).run();
}

}  // namespace sumcast::cli

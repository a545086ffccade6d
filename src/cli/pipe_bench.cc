#include "cli/pipe_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "auth/key_file.h"
#include "cli/bench_site.h"
#include "cli/pipe_crew.h"
#include "cli/pipe_forecast.h"
#include "lab/privileges.h"
#include "runtime/clock.h"
#include "trainer/workload.h"

namespace sumcast::cli {
namespace {

using plan::Schedule;

/// What a cell lasts, warming up excluded; and the fewest and most steps of it.
constexpr double kCellSeconds = 4, kCellSecondsQuick = 1.5;
constexpr uint32_t kStepsMin = 5, kStepsMax = 60;
constexpr uint32_t kWarmSteps = 3, kWarmStepsQuick = 2;
/// Steps without sums that computing is taken from; repeats of a probe's measurements.
constexpr uint32_t kAloneSteps = 25, kAloneStepsQuick = 15;
constexpr uint32_t kProbeRepeats = 7, kProbeRepeatsQuick = 5;
constexpr Duration kPatience = 180s;

/// One rate's links, with the crews that have joined over them.
struct Place {
  double ratio = 0;
  std::unique_ptr<lab::Cluster> cluster;
  std::unique_ptr<PipeCrew> crew, server_crew;
  PipeCalibration calibration;
};

class PipeBench {
 public:
  PipeBench(const PipeBenchOptions& options, report::Progress& progress, const PipeRowFn& on_row,
            std::string key_file)
      : options_(options), progress_(progress), on_row_(on_row), key_file_(std::move(key_file)) {}

  Result<std::vector<PipeRow>> run() {
    for (const std::string& model : options_.models) {
      std::vector<Place> places;
      if (auto done = calibrate(model, places); !done) return fail(done.error());
      std::vector<PipeRow> rows = predict(model, places);
      if (auto written = write_down(rows); !written) return fail(written.error());
      if (auto done = measure(places, rows); !done) return fail(done.error());
      std::move(rows.begin(), rows.end(), std::back_inserter(rows_));
    }
    return std::move(rows_);
  }

 private:
  Result<void> calibrate(const std::string& model, std::vector<Place>& places) {
    const auto layers = trainer::workload_layers(model).value();
    double bytes = 0;
    for (const trainer::DenseShape& l : layers) bytes += 4.0 * l.inputs * l.outputs;
    const uint64_t stages = 1 + options_.ratios.size();
    progress_.begin(model + ": calibration", stages, runtime::monotonic_now());
    PipeCalibration alone;
    if (auto done = measure_alone(model, alone); !done) return done;
    const double compute_s = alone.alone_sync.step_s;
    for (const double ratio : options_.ratios) {
      progress_.update(places.size() + 1, runtime::monotonic_now());
      Result<Place> place = make_place(
          model, ratio,
          rate_for_ratio(ratio, bytes, compute_s, static_cast<uint32_t>(options_.workers)), alone);
      if (!place) return fail(place.error().within(fmt::format("ratio {}", ratio)));
      places.push_back(std::move(*place));
    }
    progress_.finish(runtime::monotonic_now());
    return {};
  }

  Result<void> measure_alone(const std::string& model, PipeCalibration& alone) {
    lab::ClusterOptions wanted;
    wanted.workers = options_.workers;
    Result<lab::Cluster> cluster = lab::Cluster::on_loopback(wanted);
    if (!cluster) return fail(cluster.error());
    auto crew = PipeCrew::start(*cluster, PipeSite::kNone, model, key_file_);
    if (!crew) return fail(crew.error());
    PipeTask task;
    task.kind = PipeTask::Kind::kAlone;
    task.steps = options_.quick ? kAloneStepsQuick : kAloneSteps;
    for (uint32_t width = 1; width <= 4; ++width) {
      if (options_.quick && width > 2) break;
      task.mode = {width == 1 ? Schedule::kSync : Schedule::kPipe, plan::Collective::kInNetwork,
                   WireFormat::kNative, width};
      const auto answers = (*crew)->perform(task, kPatience);
      if (!answers) return fail(answers.error());
      (width == 1 ? alone.alone_sync : alone.alone_pipe[width]) = joined(*answers);
    }
    return {};
  }

  Result<Place> make_place(const std::string& model, double ratio, uint64_t rate,
                           const PipeCalibration& alone) {
    Place place;
    place.ratio = ratio;
    place.calibration = alone;
    lab::ClusterOptions wanted;
    wanted.workers = options_.workers;
    wanted.rate_bits_per_second = rate;
    wanted.with_server = true;
    Result<lab::Cluster> cluster = lab::Cluster::build(wanted);
    if (!cluster) return fail(cluster.error());
    place.cluster = std::make_unique<lab::Cluster>(std::move(*cluster));
    auto crew = PipeCrew::start(*place.cluster, PipeSite::kAggregator, model, key_file_);
    if (!crew) return fail(crew.error());
    place.crew = std::move(*crew);
    auto server = PipeCrew::start(*place.cluster, PipeSite::kServer, model, key_file_);
    if (!server) return fail(server.error());
    place.server_crew = std::move(*server);

    PipeTask task;
    task.kind = PipeTask::Kind::kProbe;
    task.steps = options_.quick ? kProbeRepeatsQuick : kProbeRepeats;
    for (const WireFormat wire : {WireFormat::kNative, WireFormat::kBF16, WireFormat::kInt8}) {
      task.pairs.emplace_back(plan::Collective::kInNetwork, wire);
    }
    task.pairs.emplace_back(plan::Collective::kRing, WireFormat::kNative);
    if (auto done = probe(*place.crew, task, place); !done) return fail(done.error());
    task.pairs = {{plan::Collective::kServer, WireFormat::kNative}};
    if (auto done = probe(*place.server_crew, task, place); !done) return fail(done.error());
    return place;
  }

  Result<void> probe(PipeCrew& crew, const PipeTask& task, Place& place) {
    const auto answers = crew.perform(task, kPatience);
    if (!answers) return fail(answers.error());
    plan::Calibration& network = place.calibration.network;
    for (const auto& [mode, line] : answers->front().lines) {
      network.measured[{mode.collective, mode.wire}] = line;
    }
    network.compute_jitter = place.calibration.alone_sync.deviation;
    network.network_jitter = answers->front().network_deviation;
    return {};
  }

  std::vector<PipeRow> predict(const std::string& model, const std::vector<Place>& places) const {
    std::vector<PipeRow> rows;
    for (const Place& place : places) {
      for (const plan::Mode& mode : pipe_modes(options_.quick)) {
        PipeRow& row = rows.emplace_back();
        row.model = model;
        row.mode = mode;
        row.ratio = place.ratio;
        row.workers = static_cast<uint32_t>(options_.workers);
        row.rate_bps = place.cluster->options().rate_bits_per_second;
        row.compute_s = place.calibration.alone_sync.step_s;
        row.predicted = forecast(place.calibration, mode, row.workers);
      }
    }
    return rows;
  }

  /// Before the first cell runs: what was predicted cannot be adjusted afterwards.
  Result<void> write_down(const std::vector<PipeRow>& rows) const {
    if (options_.predictions.empty()) return {};
    std::ofstream file(options_.predictions, std::ios::app);
    for (const PipeRow& row : rows) file << to_json_line(row) << "\n";
    file.flush();
    if (file) return {};
    return fail(ErrorCode::kSystem, "cannot write the predictions to " + options_.predictions);
  }

  Result<void> measure(std::vector<Place>& places, std::vector<PipeRow>& rows) {
    progress_.begin(rows.front().model + ": cells", rows.size(), runtime::monotonic_now());
    const size_t per_place = rows.size() / places.size();
    for (size_t i = 0; i < rows.size(); ++i) {
      Place& place = places[i / per_place];
      PipeRow& row = rows[i];
      PipeTask task;
      task.mode = row.mode;
      task.warm = options_.quick ? kWarmStepsQuick : kWarmSteps;
      const double seconds = options_.quick ? kCellSecondsQuick : kCellSeconds;
      task.steps = static_cast<uint32_t>(
          std::clamp(seconds / row.predicted.step_s, double{kStepsMin}, double{kStepsMax}));
      task.order = order_for(place.calibration, row.mode, row.workers);
      PipeCrew& crew =
          row.mode.collective == plan::Collective::kServer ? *place.server_crew : *place.crew;
      if (auto drained = place.cluster->drain(5s); !drained) return drained;
      const auto answers = crew.perform(task, kPatience);
      if (!answers) {
        return fail(answers.error().within(
            fmt::format("{}, ratio {}, {}", row.model, row.ratio, plan::describe(row.mode))));
      }
      const PipeAnswer all = joined(*answers);
      row.step_s = all.step_s;
      row.idle_share = all.idle_share;
      row.spans = all.spans;
      on_row_(row);
      progress_.update(i + 1, runtime::monotonic_now());
    }
    progress_.finish(runtime::monotonic_now());
    return {};
  }

  const PipeBenchOptions& options_;
  report::Progress& progress_;
  const PipeRowFn& on_row_;
  std::string key_file_;
  std::vector<PipeRow> rows_;
};

}  // namespace

std::vector<std::string> PipeBenchOptions::validate() const {
  std::vector<std::string> problems;
  if (workers < 2 || workers > 16) {
    problems.push_back(fmt::format("--workers must be 2 to 16, not {}", workers));
  }
  for (const std::string& model : models) {
    if (!trainer::workload_layers(model)) {
      problems.push_back(
          fmt::format("--model '{}' is not one of {}", model, trainer::kWorkloadNames));
    }
  }
  if (models.empty()) problems.emplace_back("--model names none");
  if (ratios.empty()) problems.emplace_back("--ratio names none");
  for (const double ratio : ratios) {
    if (!(ratio >= 0.05 && ratio <= 100)) {
      problems.push_back(fmt::format("--ratio must be 0.05 to 100, not {}", ratio));
    }
  }
  return problems;
}

std::string_view mode_name(const plan::Mode& mode) {
  return mode.collective == plan::Collective::kServer && mode.schedule == Schedule::kSync
             ? std::string_view("server")
             : plan::name_of(mode.schedule);
}

std::string to_json_line(const PipeRow& row) {
  nlohmann::ordered_json json = {{"model", row.model},
                                 {"mode", mode_name(row.mode)},
                                 {"algo", plan::name_of(row.mode.collective)},
                                 {"wire", name_of(row.mode.wire)},
                                 {"width", row.mode.width},
                                 {"ratio", row.ratio},
                                 {"workers", row.workers},
                                 {"step_us", row.step_s * 1e6},
                                 {"idle_share", row.idle_share},
                                 {"predicted_us", row.predicted.step_s * 1e6},
                                 {"predicted_low_us", row.predicted.low_s * 1e6},
                                 {"predicted_high_us", row.predicted.high_s * 1e6},
                                 {"rate_bps", row.rate_bps},
                                 {"compute_us", row.compute_s * 1e6}};
  if (row.step_s == 0) json["step_us"] = json["idle_share"] = nullptr;  // A prediction alone.
  return json.dump();
}

Result<std::vector<PipeRow>> run_pipe_bench(const PipeBenchOptions& options,
                                            report::Progress& progress, const PipeRowFn& on_row) {
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
  return PipeBench(options, progress, on_row, key_file).run();
}

}  // namespace sumcast::cli

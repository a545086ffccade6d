#include "cli/plan_command.h"

#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>

#include "cli/exit_codes.h"
#include "cli/output_file.h"
#include "cli/plan_options.h"
#include "cli/plan_print.h"
#include "cli/probe.h"
#include "plan/chakra.h"
#include "trainer/gemm.h"

namespace sumcast::cli {
namespace {

/// Rows of the table for people; --json has all.
constexpr size_t kRows = 12;
/// A trace of more than this is not read: some profilers write gigabytes.
constexpr std::streamoff kTraceBytesMax = std::streamoff{512} << 20;

int complain(const Error& error, int code) {
  fmt::print(stderr, "sumcast plan: {}\n", error.what);
  return code;
}

Result<plan::TraceSummary> read_trace_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return fail(ErrorCode::kUnavailable, "cannot read the trace " + path);
  if (file.tellg() > kTraceBytesMax) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("{} is larger than {} MiB; profile fewer steps", path, kTraceBytesMax >> 20));
  }
  file.seekg(0);
  std::ostringstream text;
  text << file.rdbuf();
  Result<plan::TraceSummary> summary =
      path.ends_with(".et") ? plan::read_chakra(text.view()) : plan::read_trace(text.view());
  if (!summary) return fail(summary.error().within(path));
  return summary;
}

/// Some products, as a model's computing would be: about 10 ms on one core, in two slices.
std::vector<std::function<void()>> some_computing() {
  constexpr int64_t kSide = 512;
  struct Matrices {
    std::vector<float> a = std::vector<float>(kSide * kSide, 0.5f), b = a, c = a;
  };
  const std::function<void()> product = [m = std::make_shared<Matrices>()] {
    trainer::best_gemm().ab({kSide, kSide, kSide}, m->a.data(), m->b.data(), m->c.data());
  };
  return {product, product};
}

/// The advised step, for other tools to look at.
Result<void> write_timeline(const PlanFlags& flags, const PlanRequest& request,
                            const plan::Advice& advice) {
  if (flags.write_perfetto.empty() && flags.write_chakra.empty()) return {};
  const plan::Timeline timeline = plan::timeline_of(
      request.calibration, request.step, request.setting, advice.predictions[advice.best].mode);
  if (!flags.write_perfetto.empty()) {
    auto done = write_output_file(flags.write_perfetto, plan::to_perfetto(timeline));
    if (!done) return done;
  }
  if (flags.write_chakra.empty()) return {};
  return write_output_file(flags.write_chakra, plan::to_chakra(timeline));
}

struct Measured {
  plan::Calibration calibration;
  uint32_t rank = 0, workers = 0;
};

/// Among the ranks that a launcher has started with this very command.
Result<Measured> calibrate() {
  Result<Options> options = Options::from_environment();
  if (!options) return fail(options.error());
  if (options->world < 2) {
    return fail(ErrorCode::kInvalidArgument,
                "--calibrate measures between ranks: start this command on all machines with "
                "torchrun --no-python, mpirun or srun, two ranks or more");
  }
  options->one_rank_per_host = true;
  options->tag = "plan --calibrate";
  Result<std::unique_ptr<Context>> context = Context::create(*options);
  if (!context) return fail(context.error());
  ProbePlan wanted;
  using plan::Collective;
  for (const WireFormat wire : {WireFormat::kNative, WireFormat::kBF16, WireFormat::kInt8}) {
    if (!options->aggregator.empty()) wanted.pairs.emplace_back(Collective::kInNetwork, wire);
    wanted.pairs.emplace_back(Collective::kDirect, wire);
  }
  wanted.pairs.emplace_back(Collective::kRing, WireFormat::kNative);
  wanted.repeats = 41;  // With all pairs, some 10 to 30 s on slow links.
  wanted.compute = some_computing();
  Result<Probed> probed = probe((*context)->world(), wanted);
  if (!probed) return fail(probed.error());
  return Measured{std::move(probed->calibration), (*context)->rank(), (*context)->size()};
}

int run_plan(PlanFlags flags) {
  for (const std::string* path : {&flags.write_perfetto, &flags.write_chakra}) {
    const Result<void> writable = check_writable(*path);
    if (!writable) return complain(writable.error(), kExitUsage);
  }
  std::optional<plan::TraceSummary> trace;
  if (!flags.trace.empty()) {
    Result<plan::TraceSummary> summary = read_trace_file(flags.trace);
    if (!summary) return complain(summary.error(), kExitUsage);
    trace = *summary;
  }
  std::optional<Measured> measured;
  if (flags.calibrate) {
    Result<Measured> result = calibrate();
    if (!result) return complain(result.error(), exit_code_of(result.error()));
    measured = std::move(*result);
    if (flags.workers == 0) flags.workers = measured->workers;
    if (flags.workers != measured->workers) {
      return complain({ErrorCode::kInvalidArgument,
                       fmt::format("--workers {}, but {} ranks were measured: their lines hold for "
                                   "as many ranks only",
                                   flags.workers, measured->workers)},
                      kExitUsage);
    }
  }
  const Result<PlanRequest> request =
      plan_request(flags, trace ? &*trace : nullptr, measured ? &measured->calibration : nullptr);
  if (!request) return complain(request.error(), kExitUsage);
  if (measured && measured->rank != 0) return 0;  // All know the same; one says it.
  const plan::Advice advice = plan::advise(request->calibration, request->step, request->setting,
                                           request->modes, request->allow_stale);
  if (auto written = write_timeline(flags, *request, advice); !written) {
    return complain(written.error(), kExitFailed);
  }
  fmt::print("{}", flags.json ? plan_json(*request, advice) : plan_text(*request, advice, kRows));
  return 0;
}

}  // namespace

void add_plan_command(CLI::App& app, int& exit_code) {
  CLI::App* const command =
      app.add_subcommand("plan", "Predict a training step's time in every mode, and advise");
  command->footer(
      "Examples:\n"
      "  sumcast plan --workers 16 --bandwidth 25gbit --model-bytes 100MB --step-time 120ms\n"
      "  sumcast plan --workers 4 --bandwidth 10gbit --trace kineto.json\n"
      "  mpirun -n 4 -x MASTER_ADDR=node1 -x MASTER_PORT=29500 -x SUMCAST_KEY_FILE=job.key \\\n"
      "    sumcast plan --calibrate --model-bytes 100MB --step-time 120ms");
  const auto flags = std::make_shared<PlanFlags>();
  command->add_option("--workers", flags->workers, "How many train together");
  command->add_option("--bandwidth", flags->bandwidth, "Each worker's link, as 25gbit");
  command->add_option("--model-bytes", flags->model_bytes, "The gradient as f32, as 100MB");
  command->add_option("--step-time", flags->step_time, "What a step computes, as 120ms");
  command->add_option("--latency", flags->latency, "One way between two workers")
      ->capture_default_str();
  command->add_option("--aggregator-bandwidth", flags->aggregator_bandwidth,
                      "sumcastd's one port; not given: a port per worker, as a switch");
  command->add_option("--forward-share", flags->forward_share, "Of computing, 0 to 1")
      ->capture_default_str();
  command->add_option("--layers", flags->layers, "Equal layers that the model is cut into")
      ->capture_default_str();
  command->add_option("--width", flags->width, "The largest K to consider")->capture_default_str();
  command->add_option("--steps", flags->steps, "Of the whole run; a width must not exceed them");
  command->add_flag("--fresh", flags->fresh, "Advise no delayed gradients");
  command->add_option("--trace", flags->trace,
                      "Kineto JSON, or a Chakra trace (*.et), to take step time and bytes from");
  command->add_option("--write-perfetto", flags->write_perfetto,
                      "File for the advised step's time line, as ui.perfetto.dev opens it");
  command->add_option("--write-chakra", flags->write_chakra,
                      "File for it as a Chakra execution trace (*.et)");
  command->add_flag("--calibrate", flags->calibrate, "Measure between the ranks of this launch");
  command->add_flag("--json", flags->json, "One JSON object");
  command->callback([flags, &exit_code] { exit_code = run_plan(*flags); });
}

}  // namespace sumcast::cli

#include "cli/plan_options.h"

#include <fmt/format.h>

#include <cmath>

#include "pipeline/options.h"
#include "runtime/units.h"

namespace sumcast::cli {
namespace {

constexpr uint32_t kWorkersMax = 65'536;

Error wrong(std::string what) { return {ErrorCode::kInvalidArgument, std::move(what)}; }

double seconds(Duration span) { return std::chrono::duration<double>(span).count(); }

/// A rate flag's bits per second, above zero.
Result<double> rate_of(const char* flag, const std::string& text) {
  const Result<uint64_t> rate = runtime::parse_rate(text);
  if (!rate) return fail(rate.error().within(flag));
  if (*rate == 0) return fail(wrong(fmt::format("{} must be above 0", flag)));
  return static_cast<double>(*rate);
}

Result<double> time_of(const char* flag, const std::string& text) {
  const Result<Duration> time = runtime::parse_duration(text);
  if (!time) return fail(time.error().within(flag));
  return seconds(*time);
}

Result<plan::StepShape> step_of(const PlanFlags& flags, const plan::TraceSummary* trace) {
  double bytes = trace != nullptr ? trace->bytes : 0;
  double compute_s = trace != nullptr ? trace->compute_s : 0;
  if (!flags.model_bytes.empty()) {
    const Result<uint64_t> size = runtime::parse_size(flags.model_bytes);
    if (!size) return fail(size.error().within("--model-bytes"));
    bytes = static_cast<double>(*size);
  }
  if (!flags.step_time.empty()) {
    const Result<double> time = time_of("--step-time", flags.step_time);
    if (!time) return fail(time.error());
    compute_s = *time;
  }
  if (bytes <= 0) {
    return fail(wrong("the model has no gradients: give their size, as --model-bytes 100MB"));
  }
  if (compute_s <= 0) {
    return fail(wrong("give the time that a step computes, as --step-time 120ms, or a --trace"));
  }
  return plan::even_step(bytes, compute_s, static_cast<int>(flags.layers), flags.forward_share);
}

Result<void> check(const PlanFlags& flags) {
  if (flags.workers < 2 || flags.workers > kWorkersMax) {
    return fail(
        wrong(fmt::format("--workers must be 2 to {}, not {}", kWorkersMax, flags.workers)));
  }
  if (flags.width < 1 || flags.width > pipeline::kWidthMax) {
    return fail(
        wrong(fmt::format("--width must be 1 to {}, not {}", pipeline::kWidthMax, flags.width)));
  }
  if (flags.steps > 0 && flags.width > flags.steps) {
    return fail(wrong(fmt::format("--width {} is more than the {} steps of the run (--steps)",
                                  flags.width, flags.steps)));
  }
  if (!(flags.forward_share >= 0 && flags.forward_share <= 1)) {
    return fail(wrong(fmt::format("--forward-share must be 0 to 1, not {}", flags.forward_share)));
  }
  if (flags.layers < 1 || flags.layers > 100'000) {
    return fail(wrong(fmt::format("--layers must be 1 to 100000, not {}", flags.layers)));
  }
  return {};
}

/// From the flags alone.
Result<void> nominal(const PlanFlags& flags, PlanRequest& request) {
  if (flags.bandwidth.empty()) {
    return fail(wrong("give the links' rate, as --bandwidth 25gbit, or measure: --calibrate"));
  }
  const Result<double> rate = rate_of("--bandwidth", flags.bandwidth);
  if (!rate) return fail(rate.error());
  const Result<double> latency = time_of("--latency", flags.latency);
  if (!latency) return fail(latency.error());
  request.worker_bits_per_second = *rate;
  plan::Calibration& c = request.calibration;
  c.alpha_s = *latency;
  c.up_s_per_byte = c.down_s_per_byte = 8 / (*rate * kPayloadShare);
  // A nominal rate has been far off before: a wide interval says so.
  c.network_jitter = 0.15;
  c.compute_jitter = 0.05;
  return {};
}

}  // namespace

Result<PlanRequest> plan_request(const PlanFlags& flags, const plan::TraceSummary* trace,
                                 const plan::Calibration* probed) {
  if (auto checked = check(flags); !checked) return fail(checked.error());
  PlanRequest request;
  if (probed != nullptr) {
    request.calibration = *probed;
  } else if (auto done = nominal(flags, request); !done) {
    return fail(done.error());
  }
  if (!flags.aggregator_bandwidth.empty()) {
    const Result<double> rate = rate_of("--aggregator-bandwidth", flags.aggregator_bandwidth);
    if (!rate) return fail(rate.error());
    request.calibration.aggregator_bytes_per_s = *rate * kPayloadShare / 8;
  }
  Result<plan::StepShape> step = step_of(flags, trace);
  if (!step) return fail(step.error());
  request.step = std::move(*step);
  request.setting.workers = flags.workers;
  plan::Choices choices;
  choices.width_max = flags.width;
  request.modes = plan::modes_of(choices);
  if (probed != nullptr) {
    // Only what was measured: a formula beside measured lines would compare apples with pears.
    std::erase_if(request.modes, [&](const plan::Mode& mode) {
      return !probed->measured.contains({mode.collective, mode.wire});
    });
    if (request.modes.empty()) return fail(wrong("nothing could be measured between these ranks"));
  }
  request.allow_stale = !flags.fresh;
  return request;
}

}  // namespace sumcast::cli

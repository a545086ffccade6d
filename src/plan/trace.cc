#include "plan/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace sumcast::plan {
namespace {

using Json = nlohmann::json;

/// Microseconds, as in the file.
struct Span {
  double start = 0, end = 0;
  double length() const { return end - start; }
};

struct Sum {
  Span span;
  double bytes = 0;
};

/// What was found of one process.
struct Recorded {
  std::vector<Span> steps;
  std::vector<Sum> sums;
  std::optional<Span> everything;
};

Error bad(const std::string& why) {
  return {ErrorCode::kInvalidArgument,
          "not a Kineto trace: " + why + " (torch.profiler's export_chrome_trace writes one)"};
}

std::optional<double> number(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  const double value = found->get<double>();
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::string text_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

bool is_sum(const std::string& name, const Json& args) {
  const bool recorded = name == "record_param_comms";
  if (!recorded && !name.starts_with("nccl:") && !name.starts_with("gloo:") &&
      !name.starts_with("sumcast:")) {
    return false;
  }
  const std::string collective = recorded ? text_of(args, "Collective name") : name;
  return collective.find("allreduce") != std::string::npos ||
         collective.find("all_reduce") != std::string::npos;
}

/// Bytes of the summed elements as f32, whatever type they had.
std::optional<double> f32_bytes(const Json& args) {
  for (const char* key : {"In msg nelems", "Out msg nelems"}) {
    if (const auto elements = number(args, key); elements && *elements >= 0) return *elements * 4;
  }
  return std::nullopt;
}

/// Length of the union of the spans, cut to `within`.
double covered(std::vector<Span> spans, const Span& within) {
  std::sort(spans.begin(), spans.end(),
            [](const Span& a, const Span& b) { return a.start < b.start; });
  double total = 0, reached = within.start;
  for (const Span& span : spans) {
    const double from = std::max(span.start, reached);
    const double to = std::min(span.end, within.end);
    if (to > from) total += to - from;
    reached = std::max(reached, to);
  }
  return total;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Result<void> take(const Json& event, size_t index, std::map<std::string, Recorded>& processes) {
  if (!event.is_object()) return fail(bad(fmt::format("event {} is not an object", index)));
  if (text_of(event, "ph") != "X") return {};  // Only complete events have a duration.
  const auto start = number(event, "ts");
  const auto duration = number(event, "dur");
  if (!start || !duration) {
    return fail(bad(fmt::format("event {} has no numeric ts and dur", index)));
  }
  if (*duration < 0) {
    return fail(bad(fmt::format("event {} has a negative duration of {} us", index, *duration)));
  }
  const Span span{*start, *start + *duration};
  const auto pid = event.find("pid");
  Recorded& recorded = processes[pid == event.end() ? std::string() : pid->dump()];
  if (!recorded.everything) recorded.everything = span;
  recorded.everything->start = std::min(recorded.everything->start, span.start);
  recorded.everything->end = std::max(recorded.everything->end, span.end);
  const std::string name = text_of(event, "name");
  if (name.starts_with("ProfilerStep")) {
    recorded.steps.push_back(span);
    return {};
  }
  const auto args = event.find("args");
  if (args == event.end() || !args->is_object() || !is_sum(name, *args)) return {};
  if (const auto bytes = f32_bytes(*args)) recorded.sums.push_back({span, *bytes});
  return {};
}

}  // namespace

Result<TraceSummary> read_trace(std::string_view text) {
  const Json root = Json::parse(text, nullptr, false);
  if (root.is_discarded()) return fail(bad("it is not JSON"));
  const Json* events = &root;
  if (root.is_object()) {
    const auto found = root.find("traceEvents");
    if (found == root.end()) return fail(bad("it has no traceEvents"));
    events = &*found;
  }
  if (!events->is_array()) return fail(bad("traceEvents is not an array"));
  std::map<std::string, Recorded> processes;
  for (size_t i = 0; i < events->size(); ++i) {
    if (auto taken = take((*events)[i], i, processes); !taken) return fail(taken.error());
  }
  const auto most = std::max_element(
      processes.begin(), processes.end(),
      [](const auto& a, const auto& b) { return a.second.sums.size() < b.second.sums.size(); });
  if (most == processes.end() || most->second.sums.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "the trace records no all-reduce with its size; profile some steps of a program "
                "that trains on several ranks");
  }
  Recorded& recorded = most->second;
  if (recorded.steps.empty()) recorded.steps.push_back(*recorded.everything);
  std::vector<double> lengths, computing, summing, bytes, operations;
  for (const Span& step : recorded.steps) {
    std::vector<Span> spans;
    double step_bytes = 0;
    for (const Sum& sum : recorded.sums) {
      if (sum.span.start < step.start || sum.span.start >= step.end) continue;
      spans.push_back(sum.span);
      step_bytes += sum.bytes;
    }
    if (spans.empty() || step.length() <= 0) continue;
    const double busy = covered(spans, step);
    lengths.push_back(step.length());
    computing.push_back(step.length() - busy);
    summing.push_back(busy);
    bytes.push_back(step_bytes);
    operations.push_back(static_cast<double>(spans.size()));
  }
  if (lengths.empty()) {
    return fail(ErrorCode::kInvalidArgument, "no step of the trace contains an all-reduce");
  }
  TraceSummary summary;
  summary.steps = static_cast<int>(lengths.size());
  summary.step_s = median(std::move(lengths)) * 1e-6;
  summary.compute_s = median(std::move(computing)) * 1e-6;
  summary.communication_s = median(std::move(summing)) * 1e-6;
  summary.bytes = median(std::move(bytes));
  summary.operations = static_cast<int>(median(std::move(operations)));
  return summary;
}

}  // namespace sumcast::plan

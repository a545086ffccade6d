#include "cli/plan_print.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "report/table.h"
#include "report/units.h"

namespace sumcast::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string time_text(double seconds) {
  return report::format_duration(Duration(static_cast<int64_t>(seconds * 1e9)));
}

Json mode_json(const plan::Prediction& p) {
  return {{"mode", plan::name_of(p.mode.schedule)}, {"algo", plan::name_of(p.mode.collective)},
          {"wire", name_of(p.mode.wire)},           {"width", p.mode.width},
          {"predicted_us", p.step_s * 1e6},         {"predicted_low_us", p.low_s * 1e6},
          {"predicted_high_us", p.high_s * 1e6},    {"idle_share", p.idle_share}};
}

}  // namespace

std::string plan_text(const PlanRequest& request, const plan::Advice& advice, size_t rows) {
  std::vector<size_t> order(advice.predictions.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return advice.predictions[a].step_s < advice.predictions[b].step_s;
  });
  if (rows > 0 && order.size() > rows) order.resize(rows);
  if (std::find(order.begin(), order.end(), advice.best) == order.end()) {
    order.push_back(advice.best);
  }
  report::Table table(
      {{"mode", report::Align::kLeft}, {"step"}, {"low"}, {"high"}, {"idle"}, {""}});
  for (const size_t i : order) {
    const plan::Prediction& p = advice.predictions[i];
    table.add_row({plan::describe(p.mode), time_text(p.step_s), time_text(p.low_s),
                   time_text(p.high_s), report::format_percent(p.idle_share),
                   i == advice.best ? "<- take this" : ""});
  }
  std::string text = table.to_string();
  const plan::Prediction& best = advice.predictions[advice.best];
  text += fmt::format("\nadvice: {}\nreason: {}\n", plan::describe(best.mode), advice.reason);
  if (best.mode.schedule == plan::Schedule::kPipe) {
    text +=
        "note:   its gradients are late: check accuracy as docs/convergence.md says, and mind "
        "AdamW and high momentum\n";
  }
  if (request.worker_bits_per_second > 0) {
    text += fmt::format(
        "port:   an aggregator with one port ties with a ring from {} on, and gains all that it "
        "can "
        "at {}\n",
        report::format_bit_rate(
            plan::break_even_rate(request.setting.workers, request.worker_bits_per_second)),
        report::format_bit_rate(request.setting.workers * request.worker_bits_per_second));
  }
  return text;
}

std::string plan_json(const PlanRequest& request, const plan::Advice& advice) {
  Json root;
  root["best"] = mode_json(advice.predictions[advice.best]);
  root["reason"] = advice.reason;
  root["workers"] = request.setting.workers;
  root["gradient_bytes"] = request.step.bytes();
  root["compute_us"] = request.step.compute_s() * 1e6;
  if (request.worker_bits_per_second > 0) {
    root["break_even_bits_per_second"] =
        plan::break_even_rate(request.setting.workers, request.worker_bits_per_second);
  }
  root["modes"] = Json::array();
  for (const plan::Prediction& p : advice.predictions) root["modes"].push_back(mode_json(p));
  return root.dump() + "\n";
}

}  // namespace sumcast::cli

#include "cli/pipe_row.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace sumcast::cli {
namespace {

using plan::Collective;
using plan::Mode;
using plan::Schedule;

/// The mode of the bench that has these names; throws like a JSON reader.
Mode mode_of(const nlohmann::json& line) {
  const auto name = line.at("mode").get<std::string>(), algo = line.at("algo").get<std::string>();
  const auto wire = line.at("wire").get<std::string>();
  const auto width = line.at("width").get<uint32_t>();
  for (const bool delayed : {false, true}) {
    for (const Mode& mode : pipe_modes(PipeScope::kAll, delayed)) {
      if (mode_name(mode) == name && plan::name_of(mode.collective) == algo &&
          plan::payload_name(mode) == wire && mode.width == width) {
        return mode;
      }
    }
  }
  throw nlohmann::json::type_error::create(302, "no such mode", &line);
}

}  // namespace

std::string_view mode_name(const Mode& mode) {
  if (mode.schedule == Schedule::kAsync) return "async-server";
  return mode.collective == Collective::kServer ? std::string_view("server")
                                                : plan::name_of(mode.schedule);
}

bool same_cell(const PipeRow& a, const PipeRow& b) {
  return a.model == b.model && a.workers == b.workers && a.ratio == b.ratio && a.delay == b.delay &&
         a.mode == b.mode;
}

std::string to_json_line(const PipeRow& row, bool with_spans) {
  nlohmann::ordered_json json = {{"model", row.model},
                                 {"mode", mode_name(row.mode)},
                                 {"algo", plan::name_of(row.mode.collective)},
                                 {"wire", plan::payload_name(row.mode)},
                                 {"width", row.mode.width},
                                 {"ratio", row.ratio},
                                 {"workers", row.workers},
                                 {"step_us", row.step_s * 1e6},
                                 {"idle_share", row.idle_share},
                                 {"predicted_us", row.predicted.step_s * 1e6},
                                 {"predicted_low_us", row.predicted.low_s * 1e6},
                                 {"predicted_high_us", row.predicted.high_s * 1e6},
                                 {"delay_us", static_cast<double>(row.delay.count()) * 1e-3},
                                 {"rate_bps", row.rate_bps},
                                 {"compute_us", row.compute_s * 1e6},
                                 {"link_bytes", row.link_bytes},
                                 {"link_idle_share", row.link_idle_share},
                                 {"drift", row.drift},
                                 {"order", row.order}};
  if (row.step_s == 0) {
    for (const char* key : {"step_us", "idle_share", "link_bytes", "link_idle_share", "drift"}) {
      json[key] = nullptr;
    }
  }
  if (with_spans) {
    json["spans"] = nlohmann::ordered_json::array();
    for (const PipeSpan& s : row.spans) {
      json["spans"].push_back(nlohmann::ordered_json::array({s.sum, s.start_ns, s.end_ns}));
    }
  }
  return json.dump();
}

Result<PipeRow> row_from_json(std::string_view line) {
  try {
    const auto json = nlohmann::json::parse(line);
    PipeRow row;
    row.mode = row.predicted.mode = mode_of(json);
    json.at("model").get_to(row.model);
    json.at("ratio").get_to(row.ratio);
    json.at("workers").get_to(row.workers);
    json.at("rate_bps").get_to(row.rate_bps);
    json.at("order").get_to(row.order);
    row.delay = Duration(std::llround(json.at("delay_us").get<double>() * 1e3));
    row.compute_s = json.at("compute_us").get<double>() * 1e-6;
    row.predicted.step_s = json.at("predicted_us").get<double>() * 1e-6;
    row.predicted.low_s = json.at("predicted_low_us").get<double>() * 1e-6;
    row.predicted.high_s = json.at("predicted_high_us").get<double>() * 1e-6;
    for (const auto& s : json.value("spans", nlohmann::json::array())) {
      row.spans.push_back({s.at(0).get<bool>(), s.at(1).get<int64_t>(), s.at(2).get<int64_t>()});
    }
    if (json.at("step_us").is_null()) return row;
    row.step_s = json.at("step_us").get<double>() * 1e-6;
    json.at("idle_share").get_to(row.idle_share);
    json.at("link_bytes").get_to(row.link_bytes);
    json.at("link_idle_share").get_to(row.link_idle_share);
    json.at("drift").get_to(row.drift);
    return row;
  } catch (const nlohmann::json::exception& error) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("not a row of bench pipeline: {}", error.what()));
  }
}

}  // namespace sumcast::cli

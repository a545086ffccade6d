#include "cli/demo_messages.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

namespace sumcast::cli {
namespace {

using nlohmann::json;

/// 64 bits in hex: JSON readers elsewhere round integers above 2^53.
std::string hex(uint64_t value) { return fmt::format("{:016x}", value); }

uint64_t from_hex(const std::string& text) {
  size_t used = 0;
  const uint64_t value = std::stoull(text, &used, 16);
  if (used != text.size() || used != 16) throw std::invalid_argument("not 16 hex digits");
  return value;
}

/// JSON has no NaN; the library writes null for it.
float float_of(const json& value) {
  return value.is_null() ? std::numeric_limits<float>::quiet_NaN() : value.get<float>();
}

json encode_result(const WorkerResult& result) {
  json reductions = json::array();
  for (const Duration span : result.reductions) reductions.push_back(span.count());
  json body = {{"kind", "result"},
               {"step_ns", result.step_median.count()},
               {"reductions_ns", std::move(reductions)},
               {"losses", result.losses},
               {"gradient_bytes", result.gradient_bytes},
               {"weights_hash", hex(result.weights_hash)},
               {"datagram_bytes", result.datagram_bytes},
               {"width", result.width},
               {"wire", result.wire}};
  if (result.accuracy) body["accuracy"] = *result.accuracy;
  return body;
}

WorkerResult decode_result(const json& body) {
  WorkerResult result;
  result.step_median = Duration(body.at("step_ns").get<int64_t>());
  for (const json& span : body.at("reductions_ns")) {
    result.reductions.emplace_back(span.get<int64_t>());
  }
  for (const json& loss : body.at("losses")) result.losses.push_back(float_of(loss));
  result.gradient_bytes = body.at("gradient_bytes").get<uint64_t>();
  result.weights_hash = from_hex(body.at("weights_hash").get<std::string>());
  result.datagram_bytes = body.at("datagram_bytes").get<uint64_t>();
  body.at("width").get_to(result.width);
  body.at("wire").get_to(result.wire);
  if (body.contains("accuracy")) result.accuracy = body.at("accuracy").get<double>();
  return result;
}

WorkerMessage decode_body(const json& body) {
  const std::string kind = body.at("kind").get<std::string>();
  if (kind == "ready") return WorkerReady{};
  if (kind == "step") {
    return WorkerStep{body.at("step").get<uint64_t>(), float_of(body.at("loss"))};
  }
  if (kind == "result") return decode_result(body);
  if (kind == "failed") return WorkerFailed{body.at("text").get<std::string>()};
  throw std::invalid_argument("unknown kind");
}

/// Runs `decode` on the parsed line; whatever the JSON library throws becomes an error here.
template <typename Decode>
auto decode_line(std::string_view line, const char* what, Decode decode)
    -> Result<decltype(decode(json()))> {
  try {
    return decode(json::parse(line));
  } catch (const std::exception& problem) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("\"{}\" is not {}: {}", line.substr(0, 200), what, problem.what()));
  }
}

}  // namespace

std::string encode(const WorkerPlan& plan) {
  const json body = {{"method", plan.method},
                     {"job", plan.job},
                     {"rank", plan.rank},
                     {"world", plan.world},
                     {"aggregator", plan.aggregator},
                     {"coordinator", plan.coordinator},
                     {"key_file", plan.key_file},
                     {"data", plan.data},
                     {"epochs", plan.epochs},
                     {"batch", plan.batch},
                     {"images", plan.images},
                     {"seed", plan.seed},
                     {"timeout_ms", plan.timeout_ms},
                     {"width", plan.width},
                     {"auto_wire", plan.auto_wire}};
  return body.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string encode(const WorkerMessage& message) {
  json body;
  if (std::holds_alternative<WorkerReady>(message)) body = {{"kind", "ready"}};
  if (const auto* step = std::get_if<WorkerStep>(&message)) {
    body = {{"kind", "step"}, {"step", step->step}, {"loss", step->loss}};
  }
  if (const auto* result = std::get_if<WorkerResult>(&message)) body = encode_result(*result);
  if (const auto* failed = std::get_if<WorkerFailed>(&message)) {
    body = {{"kind", "failed"}, {"text", failed->text}};
  }
  return body.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<WorkerPlan> decode_plan(std::string_view line) {
  return decode_line(line, "a worker's plan", [](const json& body) {
    WorkerPlan plan;
    body.at("method").get_to(plan.method);
    body.at("job").get_to(plan.job);
    body.at("rank").get_to(plan.rank);
    body.at("world").get_to(plan.world);
    body.at("aggregator").get_to(plan.aggregator);
    body.at("coordinator").get_to(plan.coordinator);
    body.at("key_file").get_to(plan.key_file);
    body.at("data").get_to(plan.data);
    body.at("epochs").get_to(plan.epochs);
    body.at("batch").get_to(plan.batch);
    body.at("images").get_to(plan.images);
    body.at("seed").get_to(plan.seed);
    body.at("timeout_ms").get_to(plan.timeout_ms);
    body.at("width").get_to(plan.width);
    body.at("auto_wire").get_to(plan.auto_wire);
    return plan;
  });
}

Result<WorkerMessage> decode_message(std::string_view line) {
  return decode_line(line, "a worker's message", decode_body);
}

}  // namespace sumcast::cli

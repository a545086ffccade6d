#include "cli/pipe_cell.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/assert.h"

namespace sumcast::cli {
namespace {

using Json = nlohmann::json;
using plan::Collective;
using plan::Mode;
using plan::Schedule;

Json to_json(const Mode& mode) {
  return Json::array({static_cast<int>(mode.schedule), static_cast<int>(mode.collective),
                      static_cast<int>(mode.wire), mode.width, static_cast<int>(mode.packing)});
}

/// Throws nlohmann's exceptions, as all readers below; decode() turns them into errors.
Mode mode_from(const Json& json) {
  const int schedule = json.at(0).get<int>(), collective = json.at(1).get<int>();
  const int wire = json.at(2).get<int>(), packing = json.at(4).get<int>();
  if (schedule < 0 || schedule > static_cast<int>(Schedule::kAsync) || collective < 0 ||
      collective >= plan::kCollectives || wire < 0 || wire >= kWireFormats || packing < 0 ||
      packing >= plan::kPackings) {
    throw Json::type_error::create(302, "no such mode", &json);
  }
  return {static_cast<Schedule>(schedule), static_cast<Collective>(collective),
          static_cast<WireFormat>(wire), json.at(3).get<uint32_t>(),
          static_cast<plan::Packing>(packing)};
}

template <typename Value, typename Read>
Result<Value> decode(std::string_view line, const Read& read) {
  try {
    return read(Json::parse(line));
  } catch (const Json::exception& error) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("not a line of bench pipeline: {}", error.what()));
  }
}

}  // namespace

std::vector<Mode> pipe_modes(PipeScope scope, bool delayed) {
  using enum Schedule;
  const WireFormat f32 = WireFormat::kNative, bf16 = WireFormat::kBF16, int8 = WireFormat::kInt8;
  if (delayed) {
    std::vector<Mode> modes = {{kSync, Collective::kInNetwork, f32, 1},
                               {kSync, Collective::kInNetwork, bf16, 1},
                               {kOverlap, Collective::kInNetwork, f32, 1}};
    for (uint32_t width = 2; width <= 5; ++width) {
      modes.push_back({kPipe, Collective::kInNetwork, f32, width});
      if (scope == PipeScope::kAll) {
        modes.push_back({kPipe, Collective::kInNetwork, bf16, width});
      }
    }
    return modes;
  }
  if (scope == PipeScope::kDecisions) {
    return {{kSync, Collective::kInNetwork, f32, 1},     {kSync, Collective::kInNetwork, bf16, 1},
            {kOverlap, Collective::kRing, f32, 1},       {kOverlap, Collective::kInNetwork, f32, 1},
            {kOverlap, Collective::kInNetwork, bf16, 1}, {kPipe, Collective::kRing, f32, 2},
            {kPipe, Collective::kInNetwork, f32, 2},     {kPipe, Collective::kInNetwork, bf16, 2},
            {kPipe, Collective::kInNetwork, int8, 2}};
  }
  std::vector<Mode> modes = {
      {kSync, Collective::kServer, f32, 1},        {kSync, Collective::kRing, f32, 1},
      {kSync, Collective::kInNetwork, f32, 1},     {kOverlap, Collective::kRing, f32, 1},
      {kOverlap, Collective::kInNetwork, f32, 1},  {kOverlap, Collective::kInNetwork, bf16, 1},
      {kPriority, Collective::kInNetwork, f32, 1}, {kPipe, Collective::kRing, f32, 2},
      {kPipe, Collective::kInNetwork, f32, 2},     {kPipe, Collective::kInNetwork, bf16, 2},
      {kPipe, Collective::kInNetwork, int8, 2},
  };
  if (scope == PipeScope::kQuick) return modes;
  for (const Mode& more : std::initializer_list<Mode>{
           {kSync, Collective::kInNetwork, bf16, 1},
           {kSync, Collective::kInNetwork, int8, 1},
           {kOverlap, Collective::kInNetwork, int8, 1},
           {kPriority, Collective::kRing, f32, 1},
           {kPriority, Collective::kInNetwork, bf16, 1},
           {kPriority, Collective::kInNetwork, int8, 1},
           {kPipe, Collective::kInNetwork, f32, 3},
           {kPipe, Collective::kInNetwork, f32, 4},
           {kPipe, Collective::kGather, f32, 2, plan::Packing::kTopK},
           {kPipe, Collective::kGather, f32, 2, plan::Packing::kQsgd},
           {kAsync, Collective::kServer, f32, 1},
       }) {
    modes.push_back(more);
  }
  return modes;
}

std::unique_ptr<pipeline::Encoder> encoder_of(plan::Packing packing) {
  constexpr int kQsgdLevels = 127;
  switch (packing) {
    case plan::Packing::kNone:
      return nullptr;
    case plan::Packing::kTopK:
      return pipeline::make_top_k_encoder(plan::kTopKShare);
    case plan::Packing::kQsgd:
      return pipeline::make_qsgd_encoder(kQsgdLevels);
  }
  return nullptr;
}

uint64_t rate_for_ratio(double ratio, double bytes, double compute_s, uint32_t workers) {
  SUMCAST_ASSERT(ratio > 0 && bytes > 0 && compute_s > 0 && workers >= 2);
  constexpr double kTcpFrames = 1514.0 / 1448.0;
  const double p = workers;
  return static_cast<uint64_t>(
      std::llround(2 * (p - 1) / p * bytes * 8 * kTcpFrames / (ratio * compute_s)));
}

PipeAnswer joined(const std::vector<PipeAnswer>& answers) {
  PipeAnswer all = answers.front();
  all.step_s = all.deviation = all.idle_share = 0;
  for (plan::LayerShape& layer : all.layers) layer.forward_s = layer.backward_s = 0;
  const auto count = static_cast<double>(answers.size());
  for (const PipeAnswer& one : answers) {
    all.step_s += one.step_s / count;
    all.deviation += one.deviation / count;
    all.idle_share += one.idle_share / count;
    for (size_t i = 0; i < std::min(all.layers.size(), one.layers.size()); ++i) {
      all.layers[i].forward_s += one.layers[i].forward_s / count;
      all.layers[i].backward_s += one.layers[i].backward_s / count;
    }
  }
  return all;
}

std::string encode(const PipeWorkerPlan& p) {
  return Json{{"model", p.model},           {"job", p.job},
              {"aggregator", p.aggregator}, {"coordinator", p.coordinator},
              {"key_file", p.key_file},     {"rank", p.rank},
              {"world", p.world},           {"server", p.server},
              {"async", p.async},           {"delay_ns", p.delay_ns}}
      .dump();
}

std::string encode(const PipeTask& t) {
  Json pairs = Json::array();
  for (const auto& [collective, wire] : t.pairs) {
    pairs.push_back(to_json({Schedule::kSync, collective, wire, 1}));
  }
  return Json{{"kind", static_cast<int>(t.kind)},
              {"mode", to_json(t.mode)},
              {"warm", t.warm},
              {"steps", t.steps},
              {"order", t.order},
              {"pairs", pairs},
              {"straggling", t.straggling}}
      .dump();
}

std::string encode(const PipeAnswer& a) {
  Json layers = Json::array(), lines = Json::array(), spans = Json::array();
  for (const plan::LayerShape& l : a.layers) {
    layers.push_back(Json::array({l.bytes, l.forward_s, l.backward_s}));
  }
  for (const auto& [mode, line] : a.lines) {
    lines.push_back(
        Json::array({to_json(mode), line.fixed_s, line.per_byte_s, line.stolen_per_byte_s,
                     line.drag, line.busy_per_byte_s, line.late_s}));
  }
  for (const PipeSpan& s : a.spans) {
    spans.push_back(Json::array({s.sum, s.start_ns, s.end_ns}));
  }
  return Json{{"error", a.error},
              {"step_s", a.step_s},
              {"deviation", a.deviation},
              {"idle_share", a.idle_share},
              {"layers", layers},
              {"lines", lines},
              {"network_deviation", a.network_deviation},
              {"straggling_s", a.straggling_s},
              {"spans", spans}}
      .dump();
}

Result<PipeWorkerPlan> decode_pipe_plan(std::string_view line) {
  return decode<PipeWorkerPlan>(line, [](const Json& j) {
    PipeWorkerPlan p;
    j.at("model").get_to(p.model);
    j.at("job").get_to(p.job);
    j.at("aggregator").get_to(p.aggregator);
    j.at("coordinator").get_to(p.coordinator);
    j.at("key_file").get_to(p.key_file);
    j.at("rank").get_to(p.rank);
    j.at("world").get_to(p.world);
    j.at("server").get_to(p.server);
    j.at("async").get_to(p.async);
    j.at("delay_ns").get_to(p.delay_ns);
    if (p.delay_ns < 0) throw Json::type_error::create(302, "a negative delay", &j);
    return p;
  });
}

Result<PipeTask> decode_pipe_task(std::string_view line) {
  return decode<PipeTask>(line, [](const Json& j) {
    PipeTask t;
    const int kind = j.at("kind").get<int>();
    if (kind < 0 || kind > 2) throw Json::type_error::create(302, "no such task", &j);
    t.kind = static_cast<PipeTask::Kind>(kind);
    t.mode = mode_from(j.at("mode"));
    j.at("warm").get_to(t.warm);
    j.at("steps").get_to(t.steps);
    j.at("order").get_to(t.order);
    j.at("straggling").get_to(t.straggling);
    for (const Json& pair : j.at("pairs")) {
      const Mode mode = mode_from(pair);
      t.pairs.emplace_back(mode.collective, mode.wire);
    }
    return t;
  });
}

Result<PipeAnswer> decode_pipe_answer(std::string_view line) {
  return decode<PipeAnswer>(line, [](const Json& j) {
    PipeAnswer a;
    j.at("error").get_to(a.error);
    j.at("step_s").get_to(a.step_s);
    j.at("deviation").get_to(a.deviation);
    j.at("idle_share").get_to(a.idle_share);
    j.at("network_deviation").get_to(a.network_deviation);
    j.at("straggling_s").get_to(a.straggling_s);
    for (const Json& l : j.at("layers")) {
      a.layers.push_back({l.at(0).get<double>(), l.at(1).get<double>(), l.at(2).get<double>()});
    }
    for (const Json& l : j.at("lines")) {
      a.lines.emplace_back(
          mode_from(l.at(0)),
          plan::MeasuredCost{l.at(1).get<double>(), l.at(2).get<double>(), l.at(3).get<double>(),
                             l.at(4).get<double>(), l.at(5).get<double>(), l.at(6).get<double>()});
    }
    for (const Json& s : j.at("spans")) {
      a.spans.push_back({s.at(0).get<bool>(), s.at(1).get<int64_t>(), s.at(2).get<int64_t>()});
    }
    return a;
  });
}

}  // namespace sumcast::cli

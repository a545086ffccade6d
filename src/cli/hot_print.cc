#include "cli/hot_print.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "report/table.h"
#include "report/units.h"

namespace sumcast::cli {
namespace {

using report::Align;
using Json = nlohmann::ordered_json;

std::string share(double value) { return report::format_percent(value); }

/// "1 %", "0.1 %": shares of keys and samples, which are round.
std::string round_share(double value) { return fmt::format("{:.3g} %", 100 * value); }

/// Infinitely many times fewer is none left.
std::string times(double value) {
  return std::isinf(value) ? "none left" : fmt::format("{:.2f}x", value);
}

std::string skew_text(const HotOptions& options, const HotStudy& study) {
  std::string out = fmt::format(
      "{}: {} rows, {} keys, {:.1f} keys a row, {:.0f} distinct ones in a batch of {}\n",
      options.source, report::format_count(study.rows), report::format_count(study.vocabulary),
      study.keys_per_row, study.keys_per_batch, report::format_count(options.batch));
  report::Table table({{"hottest keys"},
                       {"of all"},
                       {"take of rows' keys"},
                       {fmt::format("of batches' ({})", options.batch)}});
  for (const auto& top : study.top_shares) {
    table.add_row({report::format_count(top.keys), round_share(top.of_keys), share(top.of_rows),
                   share(top.of_batches)});
  }
  const auto half = [&](uint64_t keys) {
    return fmt::format(
        "{} keys ({})", report::format_count(keys),
        round_share(static_cast<double>(keys) / static_cast<double>(study.vocabulary)));
  };
  return fmt::format("{}\n{}Half of the rows' keys are {}, half of the batches' {}.\n", out,
                     table.to_string(), half(study.keys_for_half_of_rows),
                     half(study.keys_for_half_of_batches));
}

std::string coverage_text(const HotStudy& study) {
  report::Table table({{"sample"}, {"coverage"}, {"overlap"}});
  for (const SampledCoverage& row : study.coverage) {
    table.add_row({round_share(row.share), fmt::format("{:.3f}", row.quality.coverage),
                   fmt::format("{:.2f}", row.quality.overlap)});
  }
  return fmt::format(
      "The {} hottest keys as a sample of rows finds them: updates they take, against the true\n"
      "hottest; share of them among the true ones\n{}",
      report::format_count(study.capacity), table.to_string());
}

std::string why_these(const HotOptions& options, const HotStudy& study) {
  if (options.servers == 0) {
    return fmt::format("those with an expected fan-in of {:.3g} or more", options.fan_in_min);
  }
  return fmt::format(
      "as suits the links: {} fewer bytes on the busiest than with {} server{} alone",
      times(study.links.gain()), options.servers, options.servers == 1 ? "" : "s");
}

std::string traffic_text(const HotOptions& options, const HotStudy& study) {
  report::Table table({{"", Align::kLeft}, {"predicted"}, {"counted"}});
  const auto add = [&](const char* what, auto format, double (hotset::Traffic::*figure)() const) {
    // Nothing was counted where the data has no whole round.
    table.add_row({what, format((study.predicted.*figure)()),
                   study.measured.sent > 0 ? format((study.measured.*figure)()) : "-"});
  };
  using hotset::Traffic;
  add("updates that go to hot keys", share, &Traffic::hot_share);
  add("fan-in of hot keys", times, &Traffic::fan_in);
  add("keys at servers fewer by, hot sums forwarded", times, &Traffic::forward_saving);
  add("keys at servers fewer by, hot rows at workers", times, &Traffic::dual_saving);
  add("keys a worker then receives, against its own", times, &Traffic::dual_received);
  return fmt::format(
      "Hot set from a sample of {}: {} keys, {}\n"
      "{} places; coverage {:.3f}; {} workers{}; traffic predicted from the sample, counted over "
      "all "
      "rows\n{}",
      round_share(options.sample_share()), report::format_count(study.hot.size()),
      why_these(options, study), report::format_count(study.capacity), study.hot_quality.coverage,
      options.workers,
      options.rounds_held > 1 ? fmt::format(", sums held for {} rounds", options.rounds_held) : "",
      table.to_string());
}

std::string packing_text(const HotOptions& options, const HotStudy& study) {
  report::Table table({{"placement, packing", Align::kLeft},
                       {"conflicts/key"},
                       {"packets/batch"},
                       {"passes/packet"},
                       {"passes/batch"},
                       {"fill"},
                       {"doubled"},
                       {"cells/array"}});
  for (const auto& row : study.packing.rows) {
    table.add_row({row.method, fmt::format("{:.3f}", row.conflicts_per_key),
                   fmt::format("{:.1f}", row.packets_per_batch),
                   fmt::format("{:.2f}", row.passes_per_packet),
                   fmt::format("{:.1f}", row.passes_per_batch), fmt::format("{:.3f}", row.fill),
                   round_share(row.doubled_share), report::format_count(row.depth)});
  }
  return fmt::format(
      "Packing for {} register arrays, rows of {} float{} ({} lane{}): {:.0f} hot keys a batch,\n"
      "{} batches from outside of the sample; passes against naive hashing: {}\n{}",
      options.arrays, options.row_width, options.row_width == 1 ? "" : "s", study.lanes,
      study.lanes == 1 ? "" : "s", study.packing.keys_per_batch,
      report::format_count(study.packing.batches), times(study.passes_against_naive()),
      table.to_string());
}

Json quality_json(const hotset::SampleQuality& quality) {
  return {{"coverage", quality.coverage}, {"overlap", quality.overlap}};
}

Json traffic_json(const hotset::Traffic& traffic) {
  if (traffic.sent == 0) return nullptr;  // No whole round was there to count.
  return {{"keys_sent", traffic.sent},
          {"hot_keys_sent", traffic.hot_sent},
          {"hot_sums", traffic.hot_sums},
          {"hot_share", traffic.hot_share()},
          {"fan_in", traffic.fan_in()},
          {"forward_saving", traffic.forward_saving()},
          {"dual_saving", traffic.dual_saving()},
          {"dual_received", traffic.dual_received()}};
}

Json slot_json(const hotset::Slot& slot) { return {{"array", slot.array}, {"index", slot.index}}; }

}  // namespace

std::string hot_text(const HotOptions& options, const HotStudy& study) {
  std::string out = skew_text(options, study) + "\n" + coverage_text(study) + "\n";
  if (study.hot.empty() && options.servers > 0) {
    return out + fmt::format(
                     "With {} servers for {} workers no hot key makes the busiest link "
                     "carry less.\n",
                     options.servers, options.workers);
  }
  if (study.hot.empty()) {
    return out + fmt::format(
                     "No key has an expected fan-in of {:.3g} with {} workers and batches of {}: "
                     "servers alone do\nas well. Larger batches, more workers or sums held for "
                     "several rounds (--rounds-held) raise it.\n",
                     options.fan_in_min, options.workers, options.batch);
  }
  return out + traffic_text(options, study) + "\n" + packing_text(options, study);
}

std::string hot_json(const HotOptions& options, const HotStudy& study) {
  Json json = {{"source", options.source},
               {"rows", study.rows},
               {"keys", study.vocabulary},
               {"seen_keys", study.seen_keys},
               {"keys_per_row", study.keys_per_row},
               {"batch", options.batch},
               {"keys_per_batch", study.keys_per_batch},
               {"workers", options.workers},
               {"rounds_held", options.rounds_held},
               {"keys_for_half_of_rows", study.keys_for_half_of_rows},
               {"keys_for_half_of_batches", study.keys_for_half_of_batches},
               {"capacity", study.capacity},
               {"sample", options.sample_share()},
               {"hot_keys", study.hot.size()},
               {"fan_in_min", options.fan_in_min},
               {"servers", options.servers},
               {"arrays", options.arrays},
               {"row_width", options.row_width},
               {"lanes", study.lanes}};
  if (options.servers > 0) json["link_gain"] = study.links.gain();
  for (const auto& top : study.top_shares) {
    json["top_shares"].push_back({{"keys", top.keys},
                                  {"of_keys", top.of_keys},
                                  {"of_rows", top.of_rows},
                                  {"of_batches", top.of_batches}});
  }
  for (const SampledCoverage& row : study.coverage) {
    Json entry = quality_json(row.quality);
    entry["sample"] = row.share;
    json["coverage"].push_back(entry);
  }
  json["hot_quality"] = quality_json(study.hot_quality);
  json["predicted"] = traffic_json(study.predicted);
  json["counted"] = traffic_json(study.measured);
  json["hot_keys_per_batch"] = study.packing.keys_per_batch;
  json["passes_against_naive"] = study.passes_against_naive();
  json["packing"] = Json::array();
  for (const auto& row : study.packing.rows) {
    json["packing"].push_back({{"method", row.method},
                               {"conflicts_per_key", row.conflicts_per_key},
                               {"packets_per_batch", row.packets_per_batch},
                               {"passes_per_packet", row.passes_per_packet},
                               {"passes_per_batch", row.passes_per_batch},
                               {"fill", row.fill},
                               {"lanes_filled", row.lanes_filled},
                               {"doubled_share", row.doubled_share},
                               {"cells_per_array", row.depth}});
  }
  return json.dump() + "\n";
}

std::string placement_json(const HotOptions& options, const HotStudy& study) {
  Json keys = Json::array();
  for (const PlacedHotKey& hot : study.hot) {
    Json slots = Json::array({slot_json(hot.place.first)});
    if (hot.place.second.exists()) slots.push_back(slot_json(hot.place.second));
    keys.push_back({{"key", fmt::format("0x{:016x}", hot.key)},
                    {"slots", slots},
                    {"chance", hot.chance},
                    {"fan_in", hot.fan_in}});
  }
  const Json json = {{"source", options.source},
                     {"sample", options.sample_share()},
                     {"batch", options.batch},
                     {"workers", options.workers},
                     {"rounds_held", options.rounds_held},
                     {"arrays", options.arrays},
                     {"row_width", options.row_width},
                     {"lanes", study.lanes},
                     {"cells_per_array", study.placement_depth},
                     {"keys", keys}};
  return json.dump(1) + "\n";
}

}  // namespace sumcast::cli

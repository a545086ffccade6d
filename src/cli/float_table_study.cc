#include "cli/float_table_study.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

#include "base/prng.h"
#include "numeric/fixed.h"
#include "numeric/float_table.h"
#include "report/table.h"

namespace sumcast::cli {
namespace {

using Values = std::vector<std::vector<float>>;  // Per worker, per element.

double gaussian(Prng& prng) {  // Box and Muller.
  const double radius = std::sqrt(-2.0 * std::log(1.0 - prng.unit()));
  return radius * std::cos(2.0 * std::numbers::pi * prng.unit());
}

enum class Kind : uint8_t { kGaussian, kLogNormal, kScales };

struct Gradients {
  Values values;
  std::vector<float> history_max;  ///< Per element: the largest magnitude of earlier rounds.
  std::vector<double> exact;
};

Gradients draw(const FloatTableStudy& study, Kind kind, uint32_t workers) {
  Prng prng(study.seed);
  Gradients drawn;
  drawn.values.assign(workers, std::vector<float>(study.elements));
  for (size_t i = 0; i < study.elements; ++i) {
    const double scale = kind == Kind::kScales ? std::pow(10.0, -6.0 * prng.unit()) : 1.0;
    const auto value = [&] {
      if (kind != Kind::kLogNormal) return static_cast<float>(scale * gaussian(prng));
      const double magnitude = std::exp(2.0 * gaussian(prng));
      return static_cast<float>(prng.chance(0.5) ? magnitude : -magnitude);
    };
    float largest = 0;
    for (uint32_t k = 0; k < study.history_rounds * workers; ++k) {
      largest = std::max(largest, std::abs(value()));
    }
    drawn.history_max.push_back(largest);
    double sum = 0;
    for (auto& worker : drawn.values) {
      worker[i] = value();
      sum += double{worker[i]};
    }
    drawn.exact.push_back(sum);
  }
  return drawn;
}

float sum_in_rank_order(const Values& values, size_t i) {
  float sum = values[0][i];
  for (size_t worker = 1; worker < values.size(); ++worker) sum += values[worker][i];
  return sum;
}

std::vector<float> native_sums(const Gradients& drawn) {
  std::vector<float> sums;
  for (size_t i = 0; i < drawn.exact.size(); ++i) {
    sums.push_back(sum_in_rank_order(drawn.values, i));
  }
  return sums;
}

/// `refused` counts the keys that a server summed, in f32.
std::vector<float> table_sums(const Gradients& drawn, int slack_bits, size_t& refused) {
  using namespace numeric;
  const FloatTable table(static_cast<uint32_t>(drawn.values.size()));
  std::vector<float> sums(drawn.exact.size());
  for (size_t i = 0; i < sums.size(); ++i) {
    const uint8_t exponent = key_exponent(drawn.history_max[i], slack_bits);
    int32_t sum = 0, lane = 0;
    bool fits = true, overflowed = false;
    for (const auto& worker : drawn.values) {
      fits &= table.to_lanes({&worker[i], 1}, exponent, {&lane, 1}) == LaneFit::kFits;
      overflowed |= add_lanes({&lane, 1}, {&sum, 1});
    }
    table.to_floats({&sum, 1}, exponent, {&sums[i], 1});
    if (fits && !overflowed) continue;
    sums[i] = sum_in_rank_order(drawn.values, i);
    ++refused;
  }
  return sums;
}

/// Fixed point with an exponent per block of 256 keys, or one for all: of this very round, which
/// costs an exchange before it.
std::vector<float> shared_exponent_sums(const Gradients& drawn, bool one_for_all) {
  using namespace numeric;
  const size_t elements = drawn.exact.size();
  const auto workers = static_cast<uint32_t>(drawn.values.size());
  std::vector<BlockCode> codes(block_count(elements)), own(codes.size());
  for (const auto& worker : drawn.values) {
    block_codes(worker.data(), elements, own.data());
    for (size_t block = 0; block < codes.size(); ++block) {
      codes[block].exponent = std::max(codes[block].exponent, own[block].exponent);
    }
  }
  if (one_for_all) {
    uint8_t largest = 0;
    for (const BlockCode& code : codes) largest = std::max(largest, code.exponent);
    for (BlockCode& code : codes) code.exponent = largest;
  }
  std::vector<int32_t> lanes(elements), sums(elements);
  for (const auto& worker : drawn.values) {
    encode_fixed(worker.data(), elements, 0, codes.data(), workers,
                 reinterpret_cast<std::byte*>(lanes.data()));
    add_lanes(lanes, sums);
  }
  std::vector<float> result(elements);
  decode_fixed(reinterpret_cast<const std::byte*>(sums.data()), elements, 0, codes.data(), workers,
               false, result.data());
  return result;
}

void judge(const Gradients& drawn, const std::vector<float>& sums, FloatTableRow& row) {
  double errors = 0, values = 0;
  size_t off = 0;
  for (size_t i = 0; i < sums.size(); ++i) {
    const double error = double{sums[i]} - drawn.exact[i];
    errors += error * error;
    values += drawn.exact[i] * drawn.exact[i];
    off += std::abs(error) > 0.01 * std::abs(drawn.exact[i]) ? 1 : 0;
  }
  row.rms_error = std::sqrt(errors / values);
  row.off_share = static_cast<double>(off) / static_cast<double>(sums.size());
}

}  // namespace

std::vector<FloatTableRow> run_float_table_study(const FloatTableStudy& study) {
  struct Case {
    Kind kind;
    const char* name;
    uint32_t workers;
  };
  std::vector<FloatTableRow> rows;
  for (const Case& data :
       {Case{Kind::kGaussian, "gaussian", 8}, Case{Kind::kLogNormal, "log-normal, sigma 2", 32},
        Case{Kind::kScales, "scales of 10^U(-6,0)", 32}}) {
    const Gradients drawn = draw(study, data.kind, data.workers);
    const auto add = [&](const char* scheme, const std::vector<float>& sums, size_t refused) {
      FloatTableRow row{data.name, data.workers, scheme};
      row.refused_share = static_cast<double>(refused) / static_cast<double>(sums.size());
      judge(drawn, sums, row);
      rows.push_back(row);
    };
    add("f32 in rank order", native_sums(drawn), 0);
    size_t refused = 0;
    const auto sums = table_sums(drawn, study.slack_bits, refused);
    add("table, exponent per key", sums, refused);
    add("fixed, per block of 256", shared_exponent_sums(drawn, false), 0);
    add("fixed, one for all keys", shared_exponent_sums(drawn, true), 0);
  }
  return rows;
}

std::string float_table_text(const FloatTableStudy& study, const std::vector<FloatTableRow>& rows) {
  report::Table table({{"data", report::Align::kLeft},
                       {"workers"},
                       {"sum", report::Align::kLeft},
                       {"RMS error"},
                       {"off by > 1 %"},
                       {"to a server"}});
  for (const FloatTableRow& row : rows) {
    table.add_row({row.data, std::to_string(row.workers), row.scheme,
                   fmt::format("{:.1e}", row.rms_error),
                   fmt::format("{:.3f} %", 100 * row.off_share),
                   fmt::format("{:.3f} %", 100 * row.refused_share)});
  }
  return fmt::format(
      "{} keys, one contribution of every worker. RMS error over RMS value; keys whose sum is off "
      "by\nmore than 1 %. A key's exponent: its maximum over {} rounds before, and {} bits.\n{}",
      study.elements, study.history_rounds, study.slack_bits, table.to_string());
}

std::string float_table_json(const std::vector<FloatTableRow>& rows) {
  std::string out;
  for (const FloatTableRow& row : rows) {
    const nlohmann::ordered_json json = {{"kernel", "float-table"},
                                         {"data", row.data},
                                         {"workers", row.workers},
                                         {"sum", row.scheme},
                                         {"rms_error", row.rms_error},
                                         {"off_share", row.off_share},
                                         {"refused_share", row.refused_share}};
    out += json.dump() + "\n";
  }
  return out;
}

}  // namespace sumcast::cli

// How good sums by lookup table (numeric/float_table.h) are, beside f32 and beside fixed point
// whose exponent several keys share: `sumcast bench kernel --float-table`.
//
// Three kinds of gradients, as in the reference measurements: Gaussian; signed log-normal with
// sigma 2, whose tails no history predicts; and keys whose scales lie anywhere over six decades,
// which is the sparse case. Judged by the RMS error over the RMS value and by the share of elements
// that are off by more than 1 %: a scale that is right for the large keys and useless for the
// small ones looks perfect in the first and shows in the second.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sumcast::cli {

struct FloatTableRow {
  std::string data;
  uint32_t workers = 0;
  std::string scheme;
  double rms_error = 0;      ///< RMS of (sum - exact) / RMS of exact.
  double off_share = 0;      ///< Elements with |sum - exact| > 1 % of |exact|.
  double refused_share = 0;  ///< Keys that went to a server in this round: a value did not fit.
};

struct FloatTableStudy {
  size_t elements = 100'000;  ///< Keys of one float.
  uint32_t history_rounds =
      16;              ///< A key's exponent comes from its maximum over so many rounds ...
  int slack_bits = 2;  ///< ... and may be exceeded by so many bits.
  uint64_t seed = 1;
};

/// Four schemes for each of the three kinds of gradients.
std::vector<FloatTableRow> run_float_table_study(const FloatTableStudy& study);

/// The rows as a table, or as one JSON object per line.
std::string float_table_text(const FloatTableStudy& study, const std::vector<FloatTableRow>& rows);
std::string float_table_json(const std::vector<FloatTableRow>& rows);

}  // namespace sumcast::cli

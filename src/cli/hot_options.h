// What `sumcast hot` was asked to do, and everything that can be wrong with it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace sumcast::cli {

struct HotOptions {
  std::string source;           ///< A file, debian-packages, or a generator: ctr, flat.
  std::string format = "auto";  ///< As dataset::open_samples has it.
  /// What trains on it (TrainOptions::model): rows then touch what its training touches, biases and
  /// negative samples too. Empty: their own keys alone.
  std::string model;
  std::string sample = "4%";  ///< Share of the rows that the hot set is chosen from.
  uint64_t batch = 64;        ///< Rows that a worker takes per step.
  uint32_t workers = 8;       ///< Who contribute to a sum.
  uint32_t rounds_held = 1;   ///< Rounds that sums stay in the aggregator.
  uint64_t capacity = 0;      ///< Places for keys; 0: a tenth of the keys, at least 16.
  double fan_in_min = 2;      ///< Keys with less expected fan-in are not placed.
  /// Servers whose links are like a worker's. Above 0 the hot set is sized for the busiest link
  /// (sparse::balance) instead of by fan-in.
  uint32_t servers = 0;
  uint32_t arrays = 32;         ///< Register arrays.
  uint32_t row_width = 0;       ///< Floats per key; 0: the model's, or 1.
  std::string doubled = "25%";  ///< Share of the hot keys that get two slots, at most.
  uint64_t rows = 0;            ///< Rows to read or generate; 0: all of a file, 200,000 generated.
  uint64_t vocabulary = 1'000'000;  ///< Keys of a generator.
  uint64_t seed = 1;                ///< Of the generator, and of which rows are drawn.
  bool json = false;
  std::string out;     ///< Where the placement goes, as JSON; empty: nowhere.
  std::string report;  ///< Where the picture goes, an HTML file; empty: nowhere.

  /// All that is wrong, one line each that names the flag. Does not look at the data.
  std::vector<std::string> validate() const;
  bool is_generator() const { return source == "ctr" || source == "flat"; }
  /// `sample` and `doubled` must be valid.
  double sample_share() const;
  double doubled_share() const;
  /// Contributions that may meet in one sum.
  uint32_t contributors() const { return workers * rounds_held; }
};

/// "4%", "4 %" or "0.04" as 0.04.
Result<double> parse_share(const std::string& text);

}  // namespace sumcast::cli

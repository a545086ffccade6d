// What `sumcast hot` finds out about a data set.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cli/hot_options.h"
#include "hotset/corpus.h"
#include "hotset/fan_in.h"
#include "hotset/heat.h"
#include "hotset/packing_study.h"
#include "hotset/placement.h"
#include "sparse/balance.h"

namespace sumcast::cli {

/// Called now and then: what is being done, how much of it is done, of how much. 0 of 0: unknown.
using HotProgress = std::function<void(const std::string& label, uint64_t done, uint64_t total)>;

struct HotData {
  hotset::Corpus corpus;
  /// Keys that exist: of a file those in it, of a generator those that it may draw.
  uint64_t vocabulary = 0;
  uint32_t row_width = 1;  ///< Floats per key, of the model if there is one.
};

/// Reads the file or runs the generator, as the model's training would. Options must be valid.
Result<HotData> load_hot_data(const HotOptions& options, const HotProgress& progress);

struct SampledCoverage {
  double share = 0;  ///< Of the rows.
  hotset::SampleQuality quality;
};

struct PlacedHotKey {
  uint64_t key = 0;
  double chance = 0;  ///< That a batch touches it, by the sample.
  double fan_in = 0;  ///< Expected.
  hotset::PlacedKey place;
};

struct HotStudy {
  uint64_t rows = 0;
  uint64_t vocabulary = 0;
  uint64_t seen_keys = 0;  ///< Distinct keys in the rows.
  double keys_per_row = 0;
  double keys_per_batch = 0;  ///< Distinct ones.
  /// What the hottest keys take.
  struct TopShare {
    uint64_t keys = 0;
    double of_keys = 0;     ///< Share of the vocabulary.
    double of_rows = 0;     ///< Of the keys of all rows, each counted once a row.
    double of_batches = 0;  ///< Of the updates: each counted once a batch.
  };
  std::vector<TopShare> top_shares;
  std::vector<TopShare> curve;  ///< Of the first tenth of the keys, from none on.
  uint64_t keys_for_half_of_rows = 0;
  uint64_t keys_for_half_of_batches = 0;
  uint64_t capacity = 0;
  std::vector<SampledCoverage> coverage;  ///< Of `capacity` keys, whether they pay or not.
  std::vector<PlacedHotKey> hot;          ///< Hottest first: those that pay, at most `capacity`.
  sparse::Balance links;                  ///< By the sample; only where servers were given.
  hotset::SampleQuality hot_quality;
  hotset::Traffic predicted;  ///< From the sample alone.
  hotset::Traffic measured;   ///< Counted over all rows.
  uint32_t lanes = 0;         ///< For rows of this width on these arrays.
  uint32_t placement_depth = 0;
  hotset::PackingStudy packing;  ///< Over rows outside of the sample; empty if no key pays.

  /// Passes per batch of the last method over those of the first.
  double passes_against_naive() const;
};

HotStudy study_hot_keys(const HotOptions& options, const HotData& data,
                        const HotProgress& progress);

}  // namespace sumcast::cli

// Which keys are hot: counted as training touches them, and what a choice of keys is worth.
//
// A worker sums the duplicates of its batch before it sends, so what counts is in how many
// *batches* a key occurs, not in how many rows: the heat of a key is its number of batches. With
// batches of one row that is the plain frequency.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/prng.h"
#include "hotset/corpus.h"

namespace sumcast::hotset {

/// How often keys were touched.
struct Heat {
  std::vector<uint32_t> touches;  ///< Per KeyIndex: batches that held the key.
  uint64_t batches = 0;

  /// Chance that a batch touches the key, as counted.
  double chance(KeyIndex key) const {
    return batches == 0 ? 0.0 : static_cast<double>(touches[key]) / static_cast<double>(batches);
  }
  /// Touches of all keys together: keys that one worker sends in `batches` steps.
  uint64_t updates() const;
};

/// The rows of `corpus` in random order, or the first `share` of them (at least one row if there
/// is any): a sample without repetition. `share` in (0, 1].
std::vector<uint32_t> draw_rows(const Corpus& corpus, double share, Prng& prng);

/// Cuts `rows` into batches of `batch` rows (>= 1; the last may be shorter) and counts each batch's
/// set of keys.
Heat count_touches(const Corpus& corpus, std::span<const uint32_t> rows, size_t batch);

/// Keys that were touched at all, hottest first; equals by key, so that every machine agrees.
std::vector<KeyIndex> by_heat(const Corpus& corpus, const Heat& heat);

/// Share of all updates that the first `count` of `order` take.
double share_of_first(const Heat& heat, std::span<const KeyIndex> order, size_t count);

/// How many keys take half of the updates; `order` is by_heat's of the same heat.
size_t keys_for_half(const Heat& heat, std::span<const KeyIndex> order);

struct SampleQuality {
  double coverage = 0;  ///< Updates that `chosen` takes / those that the true hottest take.
  double overlap = 0;   ///< Share of `chosen` that is among the true hottest.
};

/// Compares `chosen` with as many of the hottest keys of the full data.
///
/// @param true_order by_heat(full).
SampleQuality judge_sample(const Heat& full, std::span<const KeyIndex> true_order,
                           std::span<const KeyIndex> chosen);

}  // namespace sumcast::hotset

// From the counts of a sample to the chance that a batch of training touches a key.
//
// A key that r of n sampled rows held is in a row with chance r / n, if r is large. If r is small
// that is too much: the keys of a sample that stand at one touch are mostly lucky ones out of many
// rarer keys, and of a million keys that one row in a million holds, a small sample sees hundreds
// and would call each of them hot. Good and Turing's estimate (Good 1953) puts that right without a
// model of the data: with N_r keys seen r times, those together deserve (r + 1) N_(r+1) touches. It
// is used up to r = 5 where N_r is at least 10; among fewer keys r - sqrt(r) stands instead. What
// the seen keys lose that way is the share of keys that the sample has not seen at all, N_1 / n a
// row.
//
// From rows to batches: 1 - (1 - f)^B for batches of B rows drawn at random.
#pragma once

#include <cstddef>
#include <vector>

#include "hotset/heat.h"

namespace sumcast::hotset {

struct Chances {
  std::vector<double> of;     ///< Per KeyIndex: that a batch touches it. 0 for keys not sampled.
  double keys_per_batch = 0;  ///< Expected distinct keys of a batch, those not sampled included.
};

/// @param by_row count_touches of the sample with batches of one row; at least one row.
/// @param batch  rows of a batch in training, >= 1.
Chances estimate_chances(const Heat& by_row, size_t batch);

}  // namespace sumcast::hotset

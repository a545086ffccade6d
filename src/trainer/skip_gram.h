// Skip-grams with negative sampling (Mikolov and others 2013): word vectors from what stands near
// what.
//
//   pair     a word w and one c within `window` places of it; the window of each w is drawn from
//            1..window, so that near words count more
//   loss     -log s(v_w . u_c) - sum over `negatives` drawn words n of log s(-v_w . u_n)
//            s(x) = 1 / (1 + exp(-x));  n follows count^0.75, and is not c
//   rows     v (input) and u (output) of each word, under a key each
//
// Frequent words are thinned out: an occurrence stays with chance sqrt(t / f) + t / f for a word
// that is a share f of the text. Negative samples touch their rows as real pairs do, so they count
// when hot keys are chosen. What is drawn depends on the generator that the caller passes alone.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/prng.h"
#include "dataset/vocabulary.h"
#include "trainer/sparse_model.h"

namespace sumcast::trainer {

struct SkipGramOptions {
  uint32_t width = 32;     ///< Of a vector, >= 1.
  uint32_t window = 5;     ///< >= 1.
  uint32_t negatives = 5;  ///< >= 1.
  double thin = 1e-3;      ///< t; 0: all occurrences stay.
};

/// Places among the batch's keys.
struct WordPair {
  uint32_t in = 0;
  uint32_t out = 0;
  bool is_real = false;  ///< Else drawn.
};

/// Each real pair is followed by its negatives.
struct SkipGramBatch {
  std::vector<uint64_t> keys;  ///< Distinct.
  std::vector<WordPair> pairs;

  void clear();
  uint32_t place_of(uint64_t key);

 private:
  std::unordered_map<uint64_t, uint32_t> places_;
};

/// What a batch's pairs come to.
struct SkipGramScore {
  double loss = 0;    ///< Summed over real pairs, each with its negatives.
  uint64_t real = 0;  ///< Pairs.
  double above = 0;   ///< Negatives that score below their real pair; equals count half.
  uint64_t drawn = 0;
};

/// Any number of threads may use one.
class SkipGram {
 public:
  /// @param vocabulary  at least two words.
  SkipGram(const dataset::Vocabulary& vocabulary, const SkipGramOptions& options);

  const SkipGramOptions& options() const { return options_; }
  uint64_t input_key(dataset::WordId word) const { return input_keys_[word]; }
  uint64_t output_key(dataset::WordId word) const { return output_keys_[word]; }
  /// Of new rows: small against what training makes of them.
  float init_scale() const { return 0.5f / static_cast<float>(options_.width); }

  /// Adds the pairs of a text.
  void add_text(std::span<const dataset::WordId> text, Prng& random, SkipGramBatch& batch) const;
  /// @param rows       by place in batch.keys: f32[width].
  /// @param share      what a real pair with its negatives counts.
  /// @param gradients  f32[batch.keys][width]; overwritten.
  SkipGramScore learn(const SkipGramBatch& batch, std::span<const float* const> rows, float share,
                      float* gradients) const;
  SkipGramScore measure(const SkipGramBatch& batch, std::span<const float* const> rows) const;

  /// A word by its count^0.75, but not `real`.
  dataset::WordId draw_negative(dataset::WordId real, Prng& random) const;

 private:
  /// Without gradients if null.
  SkipGramScore walk(const SkipGramBatch& batch, std::span<const float* const> rows, float share,
                     float* gradients) const;

  SkipGramOptions options_;
  std::vector<uint64_t> input_keys_, output_keys_;  // By word.
  std::vector<double> negative_ends_;               // By word: the sum of count^0.75 up to it.
  std::vector<double> stays_;                       // By word: chance of an occurrence.
};

}  // namespace sumcast::trainer

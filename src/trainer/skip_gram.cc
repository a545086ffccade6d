#include "trainer/skip_gram.h"

#include <algorithm>
#include <cmath>

#include "base/assert.h"
#include "dataset/key_hash.h"
#include "trainer/factors.h"

namespace sumcast::trainer {
namespace {

using dataset::WordId;

constexpr uint32_t kInputField = 0, kOutputField = 1;
constexpr int kDrawsMax = 16;  // Where nearly all of the text is one word.

/// log(1 + exp(-x)) without overflow.
double softplus_of_negative(double x) {
  return x > 0 ? std::log1p(std::exp(-x)) : -x + std::log1p(std::exp(x));
}

}  // namespace

void SkipGramBatch::clear() {
  keys.clear();
  pairs.clear();
  places_.clear();
}

uint32_t SkipGramBatch::place_of(uint64_t key) {
  const auto [at, fresh] = places_.try_emplace(key, static_cast<uint32_t>(keys.size()));
  if (fresh) keys.push_back(key);
  return at->second;
}

SkipGram::SkipGram(const dataset::Vocabulary& vocabulary, const SkipGramOptions& options)
    : options_(options) {
  SUMCAST_ASSERT(vocabulary.size() >= 2);
  SUMCAST_ASSERT(options.width >= 1 && options.window >= 1 && options.negatives >= 1);
  double end = 0;
  for (WordId word = 0; word < vocabulary.size(); ++word) {
    const uint64_t name = dataset::hash_bytes(vocabulary.word(word));
    input_keys_.push_back(dataset::field_key(kInputField, name));
    output_keys_.push_back(dataset::field_key(kOutputField, name));
    const auto count = static_cast<double>(vocabulary.occurrences(word));
    // count^0.75 by square roots alone, which are the same on all machines.
    end += std::sqrt(count) * std::sqrt(std::sqrt(count));
    negative_ends_.push_back(end);
    const double ratio = options.thin * static_cast<double>(vocabulary.total()) / count;
    stays_.push_back(options.thin > 0 ? std::min(1.0, std::sqrt(ratio) + ratio) : 1.0);
  }
}

WordId SkipGram::draw_negative(WordId real, Prng& random) const {
  const size_t words = negative_ends_.size();
  size_t drawn = real;
  for (int attempt = 0; attempt < kDrawsMax && drawn == real; ++attempt) {
    const double at = random.unit() * negative_ends_.back();
    const auto found = std::ranges::upper_bound(negative_ends_, at);
    drawn = std::min(static_cast<size_t>(found - negative_ends_.begin()), words - 1);
  }
  return static_cast<WordId>(drawn == real ? (drawn + 1) % words : drawn);
}

void SkipGram::add_text(std::span<const WordId> text, Prng& random, SkipGramBatch& batch) const {
  std::vector<WordId> words;
  for (const WordId word : text) {
    if (random.chance(stays_[word])) words.push_back(word);
  }
  for (size_t at = 0; at < words.size(); ++at) {
    const size_t reach = 1 + random.below(options_.window);
    const size_t first = at - std::min(at, reach), end = std::min(words.size(), at + reach + 1);
    for (size_t near = first; near < end; ++near) {
      if (near == at) continue;
      const uint32_t in = batch.place_of(input_key(words[at]));
      batch.pairs.push_back({in, batch.place_of(output_key(words[near])), true});
      for (uint32_t i = 0; i < options_.negatives; ++i) {
        const WordId negative = draw_negative(words[near], random);
        batch.pairs.push_back({in, batch.place_of(output_key(negative)), false});
      }
    }
  }
}

SkipGramScore SkipGram::walk(const SkipGramBatch& batch, std::span<const float* const> rows,
                             float share, float* gradients) const {
  const size_t width = options_.width;
  SkipGramScore score;
  float real = 0;
  for (const WordPair& pair : batch.pairs) {
    const float* const v = rows[pair.in];
    const float* const u = rows[pair.out];
    float product = 0;
    for (size_t lane = 0; lane < width; ++lane) product += v[lane] * u[lane];
    score.loss += softplus_of_negative(pair.is_real ? product : -product);
    if (pair.is_real) {
      real = product;
      ++score.real;
    } else {
      score.above += product < real ? 1.0 : product == real ? 0.5 : 0.0;
      ++score.drawn;
    }
    if (gradients == nullptr) continue;
    const float slope = share * (sigmoid(product) - (pair.is_real ? 1.0f : 0.0f));
    float* const dv = gradients + pair.in * width;
    float* const du = gradients + pair.out * width;
    for (size_t lane = 0; lane < width; ++lane) {
      dv[lane] += slope * u[lane];
      du[lane] += slope * v[lane];
    }
  }
  return score;
}

SkipGramScore SkipGram::learn(const SkipGramBatch& batch, std::span<const float* const> rows,
                              float share, float* gradients) const {
  std::fill_n(gradients, batch.keys.size() * options_.width, 0.0f);
  return walk(batch, rows, share, gradients);
}

SkipGramScore SkipGram::measure(const SkipGramBatch& batch,
                                std::span<const float* const> rows) const {
  return walk(batch, rows, 0.0f, nullptr);
}

}  // namespace sumcast::trainer

// `ctr` and `flat`: rows with one key of each field. All fields follow one law and have V / fields
// keys each, so the top x of each field together are the top x of all.
#pragma once

#include "dataset/key_stream.h"
#include "dataset/skew_law.h"

namespace sumcast::dataset {

class FieldStream final : public KeyStream {
 public:
  /// `fields` >= 1, `vocabulary` >= `fields`.
  FieldStream(uint64_t vocabulary, uint32_t fields, SkewLaw law);

  void next_batch(size_t rows, Prng& prng, std::vector<uint64_t>& keys) const override;
  uint64_t vocabulary() const override { return vocabulary_; }

  /// The key that is `rank`-th by frequency in `field`, both from 0.
  static uint64_t key_of(uint32_t field, uint64_t rank);

 private:
  uint64_t vocabulary_;
  uint32_t fields_;
  SkewLaw law_;
};

}  // namespace sumcast::dataset

// `text`: rows drawn from real text, held as keys.
#pragma once

#include <span>

#include "dataset/key_stream.h"

namespace sumcast::dataset {

class TextStream final : public KeyStream {
 public:
  /// No row yet; add some before drawing.
  TextStream() = default;

  /// Appends a row: the distinct keys of the words and word pairs of `text`. A text without a word
  /// is none and leaves no row.
  void add_row(std::string_view text);
  /// Call once, after the last row.
  void finish();

  size_t rows() const { return ends_.size(); }
  std::span<const uint64_t> row(size_t index) const;

  void next_batch(size_t rows, Prng& prng, std::vector<uint64_t>& keys) const override;
  uint64_t vocabulary() const override { return vocabulary_; }

 private:
  std::vector<uint64_t> keys_;  // All rows, one after the other.
  std::vector<size_t> ends_;    // Of each row in keys_.
  uint64_t vocabulary_ = 0;
};

/// Reads `text` as KeyStreamOptions::text says. kInvalidArgument for a text without a word.
Result<std::unique_ptr<TextStream>> read_text_stream(const std::string& text);

}  // namespace sumcast::dataset

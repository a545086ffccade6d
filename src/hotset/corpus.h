// Rows of keys in memory, each distinct key under a dense index: what counting runs over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace sumcast::hotset {

/// Index of a key in a Corpus, 0.. in the order of first appearance.
using KeyIndex = uint32_t;

/// One thread at a time.
class Corpus {
 public:
  /// Appends a row; its keys should be distinct (counting takes sets anyway).
  void add_row(std::span<const uint64_t> keys);

  size_t rows() const { return ends_.size(); }
  size_t distinct_keys() const { return keys_.size(); }
  /// Keys of all rows together.
  size_t updates() const { return indices_.size(); }
  /// Valid until the next add_row.
  std::span<const KeyIndex> row(size_t index) const;
  uint64_t key(KeyIndex index) const { return keys_[index]; }

 private:
  std::unordered_map<uint64_t, KeyIndex> known_;  // Looked up only, never walked.
  std::vector<uint64_t> keys_;
  std::vector<KeyIndex> indices_;  // All rows, one after the other.
  std::vector<size_t> ends_;       // Of each row in indices_.
};

}  // namespace sumcast::hotset

// Words under dense numbers, the most frequent first, and texts written in those numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace sumcast::dataset {

using WordId = uint32_t;

/// One thread at a time until finish(); any number after it.
class Vocabulary {
 public:
  static constexpr WordId kUnknown = UINT32_MAX;

  /// Counts the words of a text.
  void count(std::string_view text);
  /// Keeps words that came `count_min` times or more, and numbers them: frequent ones first, equals
  /// by spelling, so that every machine agrees.
  void finish(uint64_t count_min);

  size_t size() const { return words_.size(); }
  /// kUnknown: not kept.
  WordId find(const std::string& word) const;
  const std::string& word(WordId id) const { return words_[id]; }
  uint64_t occurrences(WordId id) const { return counts_[id]; }
  /// Of all kept words together.
  uint64_t total() const { return total_; }

 private:
  std::unordered_map<std::string, uint64_t> seen_;  // Walked only into a sort.
  std::unordered_map<std::string, WordId> ids_;
  std::vector<std::string> words_;
  std::vector<uint64_t> counts_;
  uint64_t total_ = 0;
};

/// Texts as known words.
class WordTexts {
 public:
  /// Longer texts are cut: a text is what one sample of training has.
  static constexpr size_t kWordsMax = 40;

  /// Appends a text; words that the vocabulary does not have are left out, and what has no two
  /// words left is none.
  void add(const Vocabulary& vocabulary, std::string_view text);

  size_t size() const { return ends_.size(); }
  std::span<const WordId> text(size_t index) const;

 private:
  void end_text(size_t begin);

  std::vector<WordId> words_;  // All texts, one after the other.
  std::vector<size_t> ends_;   // Of each text in words_.
};

}  // namespace sumcast::dataset

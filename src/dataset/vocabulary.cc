#include "dataset/vocabulary.h"

#include <algorithm>

#include "base/assert.h"
#include "dataset/words.h"

namespace sumcast::dataset {

void Vocabulary::count(std::string_view text) {
  std::vector<std::string> words;
  split_words(text, words);
  for (const std::string& word : words) ++seen_[word];
}

void Vocabulary::finish(uint64_t count_min) {
  std::vector<std::pair<uint64_t, std::string>> kept;
  for (const auto& [word, count] : seen_) {
    if (count >= count_min) kept.emplace_back(count, word);
  }
  seen_.clear();
  std::ranges::sort(kept, [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  for (auto& [count, word] : kept) {
    ids_.emplace(word, static_cast<WordId>(words_.size()));
    words_.push_back(std::move(word));
    counts_.push_back(count);
    total_ += count;
  }
}

WordId Vocabulary::find(const std::string& word) const {
  const auto found = ids_.find(word);
  return found == ids_.end() ? kUnknown : found->second;
}

void WordTexts::end_text(size_t begin) {
  if (words_.size() >= begin + 2) {
    ends_.push_back(words_.size());
  } else {
    words_.resize(begin);
  }
}

void WordTexts::add(const Vocabulary& vocabulary, std::string_view text) {
  std::vector<std::string> words;
  split_words(text, words);
  size_t begin = words_.size();
  for (const std::string& word : words) {
    const WordId id = vocabulary.find(word);
    if (id == Vocabulary::kUnknown) continue;
    words_.push_back(id);
    if (words_.size() - begin < kWordsMax) continue;
    end_text(begin);
    begin = words_.size();
  }
  end_text(begin);
}

std::span<const WordId> WordTexts::text(size_t index) const {
  SUMCAST_ASSERT(index < ends_.size());
  const size_t begin = index == 0 ? 0 : ends_[index - 1];
  return std::span(words_).subspan(begin, ends_[index] - begin);
}

}  // namespace sumcast::dataset

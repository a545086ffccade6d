#include "dataset/words.h"

#include <array>
#include <cstddef>
#include <string>

#include "dataset/key_hash.h"

namespace sumcast::dataset {
namespace {

/// What a byte becomes inside a word; 0 if it stands in none.
constexpr std::array<char, 256> word_bytes() {
  std::array<char, 256> table{};
  for (int c = 0; c < 256; ++c) {
    const bool upper = c >= 'A' && c <= 'Z';
    const bool lower = c >= 'a' && c <= 'z';
    const bool digit = c >= '0' && c <= '9';
    if (upper) table[c] = static_cast<char>(c - 'A' + 'a');
    if (lower || digit || c > 127) table[c] = static_cast<char>(c);
  }
  return table;
}

constexpr std::array<char, 256> kWordByte = word_bytes();

/// Calls `use` with each word.
template <typename Use>
void for_each_word(std::string_view text, Use use) {
  std::string word;
  const auto end_word = [&] {
    if (!word.empty()) use(word);
    word.clear();
  };
  for (const char c : text) {
    const char in_word = kWordByte[static_cast<uint8_t>(c)];
    if (in_word != 0) {
      word.push_back(in_word);
    } else if ((c == '+' || c == '#') && !word.empty()) {
      word.push_back(c);
    } else {
      end_word();
    }
  }
  end_word();
}

}  // namespace

void split_words(std::string_view text, std::vector<std::string>& words) {
  words.clear();
  for_each_word(text, [&](const std::string& word) { words.push_back(word); });
}

void append_word_keys(std::string_view text, std::vector<uint64_t>& keys) {
  const size_t first = keys.size();
  for_each_word(text, [&](const std::string& word) { keys.push_back(hash_bytes(word)); });
  const size_t words = keys.size() - first;
  for (size_t i = 1; i < words; ++i) {
    keys.push_back(pair_key(keys[first + i - 1], keys[first + i]));
  }
}

}  // namespace sumcast::dataset

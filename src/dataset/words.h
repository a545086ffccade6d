// Text to keys: the words of a line and its pairs of neighbouring words.
//
// A word is a run of ASCII letters and digits and of bytes above 127 (so UTF-8 words stay whole),
// in lower case where ASCII knows one; "+" and "#" count inside and at the end of a word ("c++").
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sumcast::dataset {

/// Replaces `words` by the words of `text`, in their order.
void split_words(std::string_view text, std::vector<std::string>& words);

/// Appends the keys of the words of `text` in their order, then those of its pairs; repetitions
/// come repeatedly.
void append_word_keys(std::string_view text, std::vector<uint64_t>& keys);

}  // namespace sumcast::dataset

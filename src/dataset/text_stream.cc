#include "dataset/text_stream.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"
#include "dataset/texts.h"
#include "dataset/words.h"

namespace sumcast::dataset {
namespace {

/// Sorts [begin, end) and removes repetitions from the vector's end.
void make_distinct(std::vector<uint64_t>& keys, size_t begin) {
  const auto from = keys.begin() + static_cast<std::ptrdiff_t>(begin);
  std::sort(from, keys.end());
  keys.erase(std::unique(from, keys.end()), keys.end());
}

}  // namespace

void TextStream::add_row(std::string_view text) {
  const size_t begin = keys_.size();
  append_word_keys(text, keys_);
  make_distinct(keys_, begin);
  if (keys_.size() > begin) ends_.push_back(keys_.size());
}

void TextStream::finish() {
  std::vector<uint64_t> all = keys_;
  make_distinct(all, 0);
  vocabulary_ = all.size();
}

std::span<const uint64_t> TextStream::row(size_t index) const {
  SUMCAST_ASSERT(index < ends_.size());
  const size_t begin = index == 0 ? 0 : ends_[index - 1];
  return std::span(keys_).subspan(begin, ends_[index] - begin);
}

void TextStream::next_batch(size_t rows, Prng& prng, std::vector<uint64_t>& keys) const {
  keys.clear();
  for (size_t i = 0; i < rows; ++i) {
    const auto drawn = row(prng.below(ends_.size()));
    keys.insert(keys.end(), drawn.begin(), drawn.end());
  }
}

Result<std::unique_ptr<TextStream>> read_text_stream(const std::string& text) {
  auto stream = std::make_unique<TextStream>();
  auto added = for_each_text(text, [&](const Text& row) { stream->add_row(row.words); });
  if (!added) return fail(added.error());
  if (stream->rows() == 0) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("{}: no word in it", text));
  }
  stream->finish();
  return stream;
}

}  // namespace sumcast::dataset

// Word vectors after training: read from the rows, written as a file, and compared.
#pragma once

#include <string>
#include <vector>

#include "dataset/vocabulary.h"
#include "sparse/worker.h"
#include "trainer/skip_gram.h"

namespace sumcast::cli {

/// Input vectors of all words, f32[words][width]; empty where `wants` is false. Called by all
/// workers.
Result<std::vector<float>> read_vectors(sparse::Worker& rows, const dataset::Vocabulary& vocabulary,
                                        const trainer::SkipGram& model, bool wants);

/// Could such a file be written? kInvalidArgument if its folder is missing or read-only.
Result<void> check_vector_file(const std::string& path);
/// word2vec's text format: "words width", then a word and its numbers a line. The file is whole or
/// not there.
Result<void> write_vectors(const std::string& path, const dataset::Vocabulary& vocabulary,
                           const std::vector<float>& vectors, size_t width);

struct NearWord {
  dataset::WordId word = 0;
  double cosine = 0;
};
/// The words whose vectors point nearest to a word's, itself left out.
std::vector<NearWord> nearest_words(dataset::WordId word, const std::vector<float>& vectors,
                                    size_t width, size_t count);
/// Prints ten of them; `word` must be in the vocabulary.
void show_nearest(const std::string& word, const dataset::Vocabulary& vocabulary,
                  const std::vector<float>& vectors, size_t width, bool json);

}  // namespace sumcast::cli

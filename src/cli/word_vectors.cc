#include "cli/word_vectors.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>

#include "sparse/durable_file.h"

namespace sumcast::cli {
namespace {

using dataset::WordId;

constexpr size_t kWordsAtOnce = 4096;
constexpr size_t kShown = 10;

}  // namespace

Result<std::vector<float>> read_vectors(sparse::Worker& rows, const dataset::Vocabulary& vocabulary,
                                        const trainer::SkipGram& model, bool wants) {
  const size_t width = model.options().width;
  std::vector<float> vectors(wants ? vocabulary.size() * width : 0);
  std::vector<uint64_t> keys;
  for (size_t first = 0; first < vocabulary.size(); first += kWordsAtOnce) {
    keys.clear();
    const size_t end = wants ? std::min(first + kWordsAtOnce, vocabulary.size()) : first;
    for (size_t word = first; word < end; ++word) {
      keys.push_back(model.input_key(static_cast<WordId>(word)));
    }
    if (auto read = rows.peek(keys, wants ? vectors.data() + first * width : nullptr); !read) {
      return fail(read.error());
    }
  }
  return vectors;
}

Result<void> check_vector_file(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  if (::access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) == 0) return {};
  return fail(
      ErrorCode::kInvalidArgument,
      fmt::format("--vectors {}: its folder cannot be written: {}", path, std::strerror(errno)));
}

Result<void> write_vectors(const std::string& path, const dataset::Vocabulary& vocabulary,
                           const std::vector<float>& vectors, size_t width) {
  auto file = sparse::DurableFile::create(path);
  if (!file) return fail(file.error());
  std::string line = fmt::format("{} {}\n", vocabulary.size(), width);
  for (size_t word = 0; word < vocabulary.size(); ++word) {
    line += vocabulary.word(static_cast<WordId>(word));
    for (size_t lane = 0; lane < width; ++lane) {
      fmt::format_to(std::back_inserter(line), " {:.6g}", vectors[word * width + lane]);
    }
    line += '\n';
    if (auto written = file->write(std::as_bytes(std::span(line))); !written) return written;
    line.clear();
  }
  return file->commit();
}

std::vector<NearWord> nearest_words(WordId word, const std::vector<float>& vectors, size_t width,
                                    size_t count) {
  const size_t words = vectors.size() / width;
  const auto product = [&](size_t a, size_t b) {
    double sum = 0;
    for (size_t lane = 0; lane < width; ++lane) {
      sum += double{vectors[a * width + lane]} * vectors[b * width + lane];
    }
    return sum;
  };
  const double own = std::sqrt(product(word, word));
  std::vector<NearWord> found;
  for (size_t other = 0; other < words; ++other) {
    const double length = std::sqrt(product(other, other));
    if (other == word || length == 0 || own == 0) continue;
    found.push_back({static_cast<WordId>(other), product(word, other) / (own * length)});
  }
  const size_t kept = std::min(count, found.size());
  std::partial_sort(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(kept), found.end(),
                    [](const NearWord& a, const NearWord& b) {
                      return a.cosine != b.cosine ? a.cosine > b.cosine : a.word < b.word;
                    });
  found.resize(kept);
  return found;
}

void show_nearest(const std::string& word, const dataset::Vocabulary& vocabulary,
                  const std::vector<float>& vectors, size_t width, bool json) {
  const auto near = nearest_words(vocabulary.find(word), vectors, width, kShown);
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  std::string line;
  for (const NearWord& one : near) {
    list.push_back({{"word", vocabulary.word(one.word)}, {"cosine", one.cosine}});
    line +=
        fmt::format("{}{} {:.2f}", line.empty() ? "" : ", ", vocabulary.word(one.word), one.cosine);
  }
  if (json) {
    fmt::print("{}\n", nlohmann::ordered_json{{"word", word}, {"nearest", list}}.dump());
  } else {
    fmt::print("nearest to {}: {}\n", word, line);
  }
}

}  // namespace sumcast::cli

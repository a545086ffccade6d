#include "cli/sparse_batches.h"

#include <algorithm>

#include "base/prng.h"

namespace sumcast::cli {
namespace {

constexpr uint32_t kBatches = 24;  // Then again from the first.

}  // namespace

size_t SparseBatches::most() const {
  size_t most = 0;
  for (const auto& batch : keys) most = std::max(most, batch.size());
  return most;
}

Result<std::unique_ptr<dataset::KeyStream>> make_sparse_stream(const SparseFlags& flags) {
  dataset::KeyStreamOptions options;
  options.vocabulary = flags.vocabulary;
  options.text = flags.text;
  return dataset::make_key_stream(flags.skew, options);
}

SparseBatches draw_sparse_batches(const dataset::KeyStream& stream, const SparseFlags& flags,
                                  uint32_t rank) {
  Prng random(flags.seed * 1'000'003 + rank);
  SparseBatches batches;
  std::vector<uint64_t> keys;
  for (uint32_t i = 0; i < kBatches; ++i) {
    stream.next_batch(flags.batch, random, keys);
    std::ranges::sort(keys);
    const auto rest = std::ranges::unique(keys);
    keys.erase(rest.begin(), rest.end());
    batches.keys.push_back(keys);
  }
  batches.noise.resize(batches.most() * flags.width);
  for (float& noise : batches.noise) noise = static_cast<float>(random.unit() - 0.5);
  return batches;
}

}  // namespace sumcast::cli

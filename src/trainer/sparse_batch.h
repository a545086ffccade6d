// A batch of sparse samples as a model computes on it: distinct keys, and each sample's features as
// places among them. Duplicates between samples are merged here, so that a key is pulled and pushed
// once a batch.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "dataset/sample.h"

namespace sumcast::trainer {

/// The key of the bias: a feature of value 1 that every sample has.
inline constexpr uint64_t kBiasKey = 0x5BD1E995B1A5B1A5u;

struct SparseEntry {
  uint32_t key = 0;  ///< Place in SparseBatch::keys; the bias has 0.
  float value = 0;
  uint32_t field = 0;  ///< The feature's; 0 of the bias.
};

struct SparseBatch {
  std::vector<uint64_t> keys;        ///< Distinct; the bias first.
  std::vector<SparseEntry> entries;  ///< Of all samples, one after the other.
  std::vector<uint32_t> ends;        ///< Of each sample, in entries.
  std::vector<float> labels;

  size_t size() const { return labels.size(); }
  std::span<const SparseEntry> sample(size_t i) const {
    const uint32_t begin = i == 0 ? 0 : ends[i - 1];
    return {entries.data() + begin, ends[i] - begin};
  }
  void clear();
  void add(const dataset::Sample& sample);

 private:
  std::unordered_map<uint64_t, uint32_t> places_;
};

}  // namespace sumcast::trainer

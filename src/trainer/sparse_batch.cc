#include "trainer/sparse_batch.h"

namespace sumcast::trainer {

void SparseBatch::clear() {
  keys.clear(), entries.clear(), ends.clear(), labels.clear(), places_.clear();
}

void SparseBatch::add(const dataset::Sample& sample) {
  const auto append = [&](uint64_t key, float value, uint32_t field) {
    const auto [at, fresh] = places_.try_emplace(key, static_cast<uint32_t>(keys.size()));
    if (fresh) keys.push_back(key);
    entries.push_back({at->second, value, field});
  };
  append(kBiasKey, 1.0f, 0);
  for (const dataset::Feature& feature : sample.features) {
    append(feature.key, feature.value, feature.field);
  }
  ends.push_back(static_cast<uint32_t>(entries.size()));
  labels.push_back(sample.label);
}

}  // namespace sumcast::trainer

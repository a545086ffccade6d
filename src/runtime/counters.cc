#include "runtime/counters.h"

#include <algorithm>

namespace sumcast::runtime {

CounterBlock::CounterBlock(size_t counters)
    : counters_(counters), lines_(std::make_unique<Line[]>((counters + kPerLine - 1) / kPerLine)) {}

CounterSet::CounterSet(std::span<const CounterInfo> table) : table_(table) {
  for (size_t i = 0; i < table.size(); ++i) SUMCAST_ASSERT(table[i].id == i);
}

CounterBlock& CounterSet::new_block() {
  const std::lock_guard lock(mutex_);
  return blocks_.emplace_back(table_.size());
}

std::vector<uint64_t> CounterSet::snapshot() const {
  std::vector<uint64_t> values(table_.size(), 0);
  const std::lock_guard lock(mutex_);
  for (const CounterBlock& block : blocks_) {
    for (size_t i = 0; i < values.size(); ++i) {
      const uint64_t value = block.read(i);
      values[i] =
          table_[i].kind == CounterKind::kPeak ? std::max(values[i], value) : values[i] + value;
    }
  }
  return values;
}

}  // namespace sumcast::runtime

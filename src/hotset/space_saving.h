// Space-Saving (Metwally, Agrawal, El Abbadi 2005): the most frequent keys of a stream in a fixed
// number of counters.
//
// A key without a counter takes over the coldest one, with its heat; what it inherits is its error.
// So for every key with a counter: heat - error <= true <= heat, and every key whose true heat
// exceeds the coldest counter's has one. Any key above total / counters does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace sumcast::hotset {

/// One thread at a time. Memory is taken at construction.
class SpaceSaving {
 public:
  struct Counter {
    uint64_t key = 0;
    double heat = 0;
    double error = 0;
    /// What the key has certainly had.
    double certain() const { return heat - error; }
  };

  /// `counters` >= 1.
  explicit SpaceSaving(size_t counters);

  /// @cost O(log counters). `weight` > 0.
  void add(uint64_t key, double weight);
  /// Multiplies all heats and errors by `factor` > 0: forgets, or renormalises.
  void scale(double factor);
  std::optional<Counter> find(uint64_t key) const;
  /// In no useful order, the same on every machine; until the next add.
  std::span<const Counter> counters() const { return heap_; }

 private:
  bool colder(size_t a, size_t b) const;
  void sink(size_t place);
  void swap_places(size_t a, size_t b);

  size_t counters_max_;
  std::vector<Counter> heap_;                      // The coldest at the front.
  std::unordered_map<uint64_t, size_t> place_of_;  // Looked up only, never walked.
};

}  // namespace sumcast::hotset

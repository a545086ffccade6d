// Counters: what a program has seen, cheap enough for every datagram.
//
// A component names its counters once, in a table; each of its threads has a block of its own
// and is the only one to write there, so counting is a load, an addition and a store, without a
// locked instruction and without sharing a cache line. Readers add the blocks up at any time.
// It does not know what is counted, nor who asks: status, metrics and JSON start from `snapshot`.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/assert.h"

namespace sumcast::runtime {

enum class CounterKind : uint8_t {
  kSum,   ///< Only grows; blocks are added. Prometheus type counter.
  kPeak,  ///< A high-water mark, such as the longest duty cycle; the largest block counts.
};

/// One row of a component's table. Texts live as long as the program.
struct CounterInfo {
  uint16_t id;            ///< The row's own index: the value of the component's enum.
  std::string_view name;  ///< As Prometheus will show it: "sumcast_rx_packets_total".
  std::string_view unit;  ///< "packets", "bytes", "ns".
  std::string_view help;  ///< One sentence without its full stop.
  CounterKind kind = CounterKind::kSum;
  std::string_view labels = {};  ///< Tells rows of one name apart: `reason="auth"`. May be empty.
};

/// The counters of one thread. Written by that thread alone, read by any.
class CounterBlock {
 public:
  explicit CounterBlock(size_t counters);

  /// Adds `n` to a counter of kind kSum. `id` is the component's enum or an index.
  template <typename Id>
  void add(Id id, uint64_t n = 1) noexcept {
    std::atomic<uint64_t>& cell = at(id);
    cell.store(cell.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  /// Raises a counter of kind kPeak to at least `value`.
  template <typename Id>
  void raise(Id id, uint64_t value) noexcept {
    std::atomic<uint64_t>& cell = at(id);
    if (value > cell.load(std::memory_order_relaxed)) cell.store(value, std::memory_order_relaxed);
  }
  template <typename Id>
  uint64_t read(Id id) const noexcept {
    return const_cast<CounterBlock*>(this)->at(id).load(std::memory_order_relaxed);
  }

 private:
  static constexpr size_t kPerLine = 8;
  /// A cache line of counters, so that no two blocks share one.
  struct alignas(64) Line {
    std::atomic<uint64_t> cells[kPerLine] = {};
  };

  template <typename Id>
  std::atomic<uint64_t>& at(Id id) noexcept {
    const auto index = static_cast<size_t>(id);
    SUMCAST_DCHECK(index < counters_);
    return lines_[index / kPerLine].cells[index % kPerLine];
  }

  size_t counters_;
  std::unique_ptr<Line[]> lines_;
};

/// All blocks of one component.
class CounterSet {
 public:
  /// @param table  lives as long as the set; row i has id i (asserted).
  explicit CounterSet(std::span<const CounterInfo> table);

  /// A block for the calling thread, or for one it is about to start. It stays where it is and
  /// lives as long as the set, so that counts of a thread that ended are not lost. Any thread.
  CounterBlock& new_block();

  /// Sums (or peaks) over all blocks, by id. Each value is one that was true during the call;
  /// different counters may be some events apart. Any thread.
  std::vector<uint64_t> snapshot() const;

  std::span<const CounterInfo> table() const { return table_; }

 private:
  std::span<const CounterInfo> table_;
  mutable std::mutex mutex_;         // Guards the list, not the counters.
  std::deque<CounterBlock> blocks_;  // A deque does not move what it holds.
};

}  // namespace sumcast::runtime

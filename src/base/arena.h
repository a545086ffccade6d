// Fixed memory for fixed pools: a caller allocates once, a component takes its arrays from it.
// The pure rooms hold all their state this way, so that nothing in them can grow (P8).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <type_traits>

#include "base/assert.h"

namespace sumcast {

class Arena {
 public:
  /// `memory` stays the caller's and must outlive every span taken.
  explicit Arena(std::span<std::byte> memory) : next_(memory.data()), left_(memory.size()) {}

  /// Bytes that `take<T>(count)` may use, alignment included.
  template <typename T>
  static constexpr size_t bytes_for(size_t count) {
    return count * sizeof(T) + alignof(T) - 1;
  }

  /// `count` value-initialised elements. Running out is our bug (asserted).
  template <typename T>
  std::span<T> take(size_t count) {
    static_assert(std::is_trivially_destructible_v<T>);
    const auto address = reinterpret_cast<uintptr_t>(next_);
    const size_t padding = (alignof(T) - address % alignof(T)) % alignof(T);
    const size_t bytes = padding + count * sizeof(T);
    SUMCAST_ASSERT(bytes <= left_);
    T* first = reinterpret_cast<T*>(next_ + padding);
    for (size_t i = 0; i < count; ++i) new (first + i) T();
    next_ += bytes;
    left_ -= bytes;
    return {first, count};
  }

 private:
  std::byte* next_;
  size_t left_;
};

/// A queue of at most `capacity` values over memory that somebody else owns.
template <typename T>
class Ring {
 public:
  Ring() = default;
  explicit Ring(std::span<T> memory) : memory_(memory) {}

  bool empty() const { return count_ == 0; }
  bool full() const { return count_ == memory_.size(); }
  size_t size() const { return count_; }
  void push(T value) {
    SUMCAST_ASSERT(!full());
    size_t at = head_ + count_;
    if (at >= memory_.size()) at -= memory_.size();
    memory_[at] = value;
    ++count_;
  }
  const T& front() const { return memory_[head_]; }
  T pop() {
    SUMCAST_ASSERT(!empty());
    const T value = memory_[head_];
    if (++head_ == memory_.size()) head_ = 0;
    --count_;
    return value;
  }

 private:
  std::span<T> memory_;
  size_t head_ = 0;
  size_t count_ = 0;
};

/// A list that a caller lends: room for `capacity` values, filled by a pure function.
template <typename T>
class BoundedList {
 public:
  explicit BoundedList(std::span<T> memory) : memory_(memory) {}
  bool full() const { return count_ == memory_.size(); }
  bool empty() const { return count_ == 0; }
  size_t size() const { return count_; }
  size_t room() const { return memory_.size() - count_; }
  void push(const T& value) {
    SUMCAST_ASSERT(!full());
    memory_[count_++] = value;
  }
  void clear() { count_ = 0; }
  std::span<T> view() const { return memory_.first(count_); }
  const T* begin() const { return memory_.data(); }
  const T* end() const { return memory_.data() + count_; }

 private:
  std::span<T> memory_;
  size_t count_ = 0;
};

}  // namespace sumcast

// An array that is shared instead of copied: a pointer with a count of owners, and a size.
#ifndef PS_SARRAY_H_
#define PS_SARRAY_H_

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <ostream>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "ps/internal/utils.h"
#include "ps/range.h"

namespace ps {

/// Copies share the elements; what one writes the others see. The memory goes with the last of
/// them. Elements are moved as bytes, so V must be trivially copyable. Sizes are 64-bit.
template <typename V>
class SArray {
 public:
  SArray() {}
  ~SArray() = default;
  SArray(const SArray&) = default;
  SArray(SArray&& other) noexcept
      : size_(other.size_), capacity_(other.capacity_), ptr_(std::move(other.ptr_)) {
    other.size_ = other.capacity_ = 0;
  }
  SArray& operator=(const SArray&) = default;
  SArray& operator=(SArray&& other) noexcept {
    size_ = other.size_;
    capacity_ = other.capacity_;
    ptr_ = std::move(other.ptr_);
    if (this != &other) other.size_ = other.capacity_ = 0;
    return *this;
  }

  /// `size` elements, each `val`.
  explicit SArray(size_t size, V val = 0) { resize(size, val); }

  /// The same bytes as elements of another type; the sizes must divide.
  template <typename W>
  explicit SArray(const SArray<W>& other) {
    *this = other;
  }
  template <typename W>
  void operator=(const SArray<W>& other) {
    const size_t bytes = other.size() * sizeof(W);
    CHECK_EQ(bytes % sizeof(V), 0u)
        << bytes << " bytes are no whole number of elements of " << sizeof(V);
    size_ = bytes / sizeof(V);
    capacity_ = other.capacity() * sizeof(W) / sizeof(V);
    ptr_ = std::shared_ptr<V>(other.ptr(), reinterpret_cast<V*>(other.data()));
  }

  /// Refers to the caller's memory; with `deletable` it is freed by delete[] with the last owner.
  SArray(V* data, size_t size, bool deletable = false) {
    if (deletable) {
      reset(data, size, [](V* memory) { delete[] memory; });
    } else {
      reset(data, size, [](V*) {});
    }
  }

  /// Copies.
  explicit SArray(const std::vector<V>& vec) { CopyFrom(vec.data(), vec.size()); }
  /// Shares.
  explicit SArray(const std::shared_ptr<std::vector<V>>& vec)
      : size_(vec->size()), capacity_(vec->size()), ptr_(vec, vec->data()) {}
  template <typename W>
  SArray(const std::initializer_list<W>& list) {  // NOLINT: implicit, as programs expect.
    CopyFrom(list.begin(), list.end());
  }
  template <typename W>
  void operator=(const std::initializer_list<W>& list) {
    CopyFrom(list.begin(), list.end());
  }

  /// Copies, into memory that is its own if it was before.
  void CopyFrom(const V* from, size_t size) {
    if (capacity_ < size || ptr_ == nullptr) allocate(size);
    size_ = size;
    if (size > 0) std::memcpy(static_cast<void*>(data()), from, size * sizeof(V));
  }
  void CopyFrom(const SArray<V>& other) {
    if (this != &other) CopyFrom(other.data(), other.size());
  }
  template <typename ForwardIt>
  void CopyFrom(const ForwardIt& first, const ForwardIt& last) {
    allocate(static_cast<size_t>(std::distance(first, last)));
    size_ = capacity_;
    V* to = data();
    for (ForwardIt it = first; it != last; ++it) *to++ = static_cast<V>(*it);
  }

  /// Takes other memory, to be freed by `del(data)`.
  template <typename Deleter>
  void reset(V* data, size_t size, Deleter del) {
    size_ = capacity_ = size;
    ptr_.reset(data, del);
  }

  /// New elements are `val`. Where the capacity does not suffice the elements move to new memory,
  /// which other owners of the old one do not see.
  void resize(size_t size, V val = 0) {
    const size_t before = size_;
    if (capacity_ < size) grow(size);
    size_ = size;
    if (size > before) std::fill(data() + before, data() + size, val);
  }
  void reserve(size_t size) {
    if (capacity_ < size) grow(size);
  }
  void clear() {
    reset(nullptr, 0, [](V*) {});
  }

  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  size_t capacity() const { return capacity_; }

  V* begin() { return data(); }
  const V* begin() const { return data(); }
  V* end() { return data() + size_; }
  const V* end() const { return data() + size_; }
  V* data() const { return ptr_.get(); }

  std::shared_ptr<V>& ptr() { return ptr_; }
  const std::shared_ptr<V>& ptr() const { return ptr_; }

  V back() const {
    CHECK(!empty());
    return data()[size_ - 1];
  }
  V front() const {
    CHECK(!empty());
    return data()[0];
  }
  V& operator[](size_t i) { return data()[i]; }
  const V& operator[](size_t i) const { return data()[i]; }

  void push_back(const V& val) {
    const V copy = val;  // It may be one of ours.
    if (size_ == capacity_) grow(size_ * 2 + 5);
    data()[size_++] = copy;
  }
  void pop_back() {
    if (size_ > 0) --size_;
  }
  void append(const SArray<V>& other) {
    if (other.empty()) return;
    const SArray<V> kept = other;  // It may be us.
    const size_t before = size_;
    if (capacity_ < before + kept.size()) grow(before + kept.size());
    std::memcpy(static_cast<void*>(data() + before), kept.data(), kept.size() * sizeof(V));
    size_ = before + kept.size();
  }

  /// Shares the elements [begin, end).
  SArray<V> segment(size_t begin, size_t end) const {
    CHECK_GE(end, begin);
    CHECK_LE(end, size_);
    SArray<V> part;
    part.ptr_ = std::shared_ptr<V>(ptr_, data() + begin);
    part.size_ = part.capacity_ = end - begin;
    return part;
  }

 private:
  void allocate(size_t capacity) {
    ptr_.reset(new V[capacity], [](V* memory) { delete[] memory; });
    capacity_ = capacity;
  }
  void grow(size_t capacity) {
    const std::shared_ptr<V> old = ptr_;
    allocate(capacity);
    if (size_ > 0) std::memcpy(static_cast<void*>(data()), old.get(), size_ * sizeof(V));
  }

  size_t size_ = 0;
  size_t capacity_ = 0;
  std::shared_ptr<V> ptr_;
};

/// Where the values from `lower` up to but without `upper` stand in a sorted array.
template <typename V>
Range FindRange(const SArray<V>& arr, V lower, V upper) {
  if (upper <= lower) return Range(0, 0);
  const V* first = std::lower_bound(arr.begin(), arr.end(), lower);
  const V* last = std::lower_bound(first, arr.end(), upper);
  return Range(static_cast<uint64_t>(first - arr.begin()),
               static_cast<uint64_t>(last - arr.begin()));
}

/// "[n]: a b c ... x y z ", with `m` elements at each end of a long array.
template <typename V>
inline std::string DebugStr(const V* data, size_t n, size_t m = 5) {
  std::ostringstream text;
  text << "[" << n << "]: ";
  if (n < 2 * m) {
    for (size_t i = 0; i < n; ++i) text << data[i] << " ";
  } else {
    for (size_t i = 0; i < m; ++i) text << data[i] << " ";
    text << "... ";
    for (size_t i = n - m; i < n; ++i) text << data[i] << " ";
  }
  return text.str();
}

template <typename V>
std::ostream& operator<<(std::ostream& os, const SArray<V>& obj) {
  return os << DebugStr(obj.data(), obj.size());
}

}  // namespace ps
#endif  // PS_SARRAY_H_

// The memory that datagrams arrive in and stay in until they have been added.
//
// Copying a datagram out of the buffer that the kernel filled would cost as much as adding it. So
// a buffer is counted: whoever keeps a datagram of a batch for later takes a reference, and the
// buffer is free again when the last one is given back. It does not know what is in a buffer.
//
// The free list is a stack of indices, last in first out, so that the kernel writes into memory
// that is still in the cache. `peek` shows the buffers that `acquire` will hand out next: the
// receive path lends them to the kernel without taking them, and takes only those that were filled.
//
// For one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/assert.h"
#include "base/ids.h"

namespace sumcast::net {

/// Index of a buffer in its ReceiveBuffers, from 0.
using BufferIndex = Id<struct BufferTag, uint32_t>;
inline constexpr BufferIndex kNoBuffer{UINT32_MAX};

/// The largest batch that receive offload makes: 64 KiB, headers included.
inline constexpr uint32_t kBatchBytesMax = 65536;

/// A fixed pool of equal buffers, sized at construction.
class ReceiveBuffers {
 public:
  /// @param count         1 or more.
  /// @param buffer_bytes  what one buffer holds at least; 2,048 suffices where has_gro() is false,
  ///                      since then each buffer takes a single datagram.
  explicit ReceiveBuffers(uint32_t count, uint32_t buffer_bytes = kBatchBytesMax);
  ~ReceiveBuffers();
  ReceiveBuffers(const ReceiveBuffers&) = delete;
  ReceiveBuffers& operator=(const ReceiveBuffers&) = delete;

  uint32_t count() const { return count_; }
  uint32_t buffer_bytes() const { return buffer_bytes_; }
  uint32_t available() const { return free_count_; }

  /// Start of the buffer, aligned to 64 bytes; valid as long as the pool.
  std::byte* data(BufferIndex i) {
    SUMCAST_ASSERT(i.value < count_);
    return memory_ + size_t{i.value} * stride_;
  }

  /// Takes a free buffer with one reference, or kNoBuffer if there is none.
  BufferIndex acquire() {
    if (free_count_ == 0) return kNoBuffer;
    const BufferIndex i{free_[--free_count_]};
    references_[i.value] = 1;
    return i;
  }
  /// The buffer that the acquire() after `ahead` others will return; ahead < available().
  BufferIndex peek(uint32_t ahead) const {
    SUMCAST_ASSERT(ahead < free_count_);
    return BufferIndex{free_[free_count_ - 1 - ahead]};
  }

  /// `n` more holders of a buffer that is held.
  void add_reference(BufferIndex i, uint32_t n = 1) {
    SUMCAST_ASSERT(i.value < count_ && references_[i.value] > 0);
    references_[i.value] += n;
  }
  /// One holder less; the last one frees the buffer.
  void release(BufferIndex i) {
    SUMCAST_ASSERT(i.value < count_ && references_[i.value] > 0);
    if (--references_[i.value] == 0) free_[free_count_++] = i.value;
  }
  uint32_t references(BufferIndex i) const {
    SUMCAST_ASSERT(i.value < count_);
    return references_[i.value];
  }

 private:
  uint32_t count_;
  uint32_t buffer_bytes_;
  size_t stride_;
  size_t mapped_bytes_ = 0;
  std::byte* mapping_ = nullptr;
  std::byte* memory_ = nullptr;  ///< The first 2 MiB boundary in `mapping_`.
  uint32_t free_count_;
  std::unique_ptr<uint32_t[]> free_;
  std::unique_ptr<uint32_t[]> references_;
};

}  // namespace sumcast::net

// Working memory that outlives a call: pages that were touched once need not be zeroed again by the
// kernel for every collective. There are as many blocks as calls were ever under way at once.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace sumcast::mesh {

class ScratchPool;

/// A block on loan, given back when it goes. Uninitialised.
class Scratch {
 public:
  Scratch(Scratch&& other) noexcept
      : pool_(other.pool_), memory_(std::move(other.memory_)), bytes_(other.bytes_) {}
  Scratch& operator=(Scratch&&) = delete;
  ~Scratch();

  std::byte* data() const { return memory_.get(); }

 private:
  friend class ScratchPool;
  Scratch(ScratchPool* pool, std::unique_ptr<std::byte[]> memory, size_t bytes)
      : pool_(pool), memory_(std::move(memory)), bytes_(bytes) {}

  ScratchPool* pool_;
  std::unique_ptr<std::byte[]> memory_;
  size_t bytes_;
};

/// Thread-safe; outlives what it lends.
class ScratchPool {
 public:
  /// At least `bytes` bytes.
  Scratch take(size_t bytes) {
    {
      std::lock_guard lock(mutex_);
      for (Block& block : free_) {
        if (block.bytes < bytes) continue;
        Block found = std::move(block);
        block = std::move(free_.back());
        free_.pop_back();
        return {this, std::move(found.memory), found.bytes};
      }
      if (!free_.empty()) free_.pop_back();  // Too small for what is asked now: it makes room.
    }
    return {this, std::make_unique_for_overwrite<std::byte[]>(bytes), bytes};
  }

 private:
  friend class Scratch;
  struct Block {
    std::unique_ptr<std::byte[]> memory;
    size_t bytes = 0;
  };
  void give_back(Block block) {
    std::lock_guard lock(mutex_);
    free_.push_back(std::move(block));
  }

  std::mutex mutex_;
  std::vector<Block> free_;
};

inline Scratch::~Scratch() {
  if (memory_) pool_->give_back({std::move(memory_), bytes_});
}

}  // namespace sumcast::mesh

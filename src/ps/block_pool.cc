#include "ps/block_pool.h"

#include <algorithm>
#include <map>
#include <mutex>

namespace sumcast::ps {
namespace {

constexpr size_t kPooledMin = 128 << 10;        // Below, malloc reuses its memory itself.
constexpr size_t kKeptMax = size_t{256} << 20;  // Idle bytes, at most.

/// Idle blocks by size. Never destroyed: arrays may outlive everything else in the process.
struct Pool {
  std::mutex mutex;
  std::multimap<size_t, char*> idle;
  size_t idle_bytes = 0;

  char* take(size_t wanted, size_t& bytes) {
    {
      std::lock_guard lock(mutex);
      const auto it = idle.lower_bound(wanted);
      // A much larger block would be missed by the message that needs it.
      if (it != idle.end() && it->first <= 2 * wanted) {
        char* const memory = it->second;
        bytes = it->first;
        idle_bytes -= it->first;
        idle.erase(it);
        return memory;
      }
    }
    bytes = (wanted + kPooledMin - 1) / kPooledMin * kPooledMin;
    return new char[bytes];
  }

  void give_back(char* memory, size_t bytes) {
    {
      std::lock_guard lock(mutex);
      if (idle_bytes + bytes <= kKeptMax) {
        idle.emplace(bytes, memory);
        idle_bytes += bytes;
        return;
      }
    }
    delete[] memory;
  }
};

Pool& pool() {
  static Pool* const instance = new Pool;
  return *instance;
}

}  // namespace

std::shared_ptr<char> make_block(size_t bytes) {
  if (bytes < kPooledMin) {
    auto memory = std::make_shared_for_overwrite<char[]>(bytes);
    return {memory, memory.get()};
  }
  size_t taken = 0;
  char* const memory = pool().take(bytes, taken);
  return {memory, [taken](char* block) { pool().give_back(block, taken); }};
}

}  // namespace sumcast::ps

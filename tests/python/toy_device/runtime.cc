#include "runtime.h"

#include <c10/util/Exception.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

namespace toy {
namespace {

struct Worker {
  std::deque<std::function<void()>> tasks;
  std::condition_variable changed;
  bool busy = false;
};

/// One lock for all of it; tasks run without it. Never destroyed: its threads live until the end.
struct World {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::pair<int, int64_t>, std::unique_ptr<Worker>> workers;
  std::map<uintptr_t, std::pair<size_t, bool>> memory;  // Size, pinned.
  std::set<int64_t> holds;
  int64_t last_hold = 0;
  std::map<Direction, int64_t> left;  // Copies that may pass.
  std::vector<Copy> copies;
  uint64_t faults = 0;
  std::string failure;
};

World& world() {
  static World& one = *new World;
  return one;
}

void serve(Worker& worker) {
  std::unique_lock lock(world().mutex);
  for (;;) {
    worker.changed.wait(lock, [&] { return !worker.tasks.empty(); });
    auto task = std::move(worker.tasks.front());
    worker.tasks.pop_front();
    worker.busy = true;
    lock.unlock();
    task();
    task = nullptr;
    lock.lock();
    worker.busy = false;
    world().changed.notify_all();
  }
}

Worker& worker_of(const c10::Stream& stream) {
  auto& slot = world().workers[{stream.device_index(), stream.id()}];
  if (!slot) {
    slot = std::make_unique<Worker>();
    std::thread(serve, std::ref(*slot)).detach();
  }
  return *slot;
}

void* keep(size_t bytes, bool pinned) {
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  std::memset(memory, 0xEE, bytes);
  const std::lock_guard lock(world().mutex);
  world().memory[reinterpret_cast<uintptr_t>(memory)] = {bytes, pinned};
  return memory;
}

}  // namespace

void queue(const c10::Stream& stream, std::function<void()> task) {
  const std::lock_guard lock(world().mutex);
  Worker& worker = worker_of(stream);
  worker.tasks.push_back(std::move(task));
  worker.changed.notify_all();
}

void synchronize(const c10::Stream& stream) {
  std::unique_lock lock(world().mutex);
  Worker& worker = worker_of(stream);
  world().changed.wait(lock, [&] { return worker.tasks.empty() && !worker.busy; });
}

void* allocate(size_t bytes) { return keep(bytes, false); }
void* allocate_pinned(size_t bytes) { return keep(bytes, true); }

void release(void* memory) {
  {
    const std::lock_guard lock(world().mutex);
    world().memory.erase(reinterpret_cast<uintptr_t>(memory));
  }
  std::free(memory);
}

bool is_pinned(const void* memory) {
  const std::lock_guard lock(world().mutex);
  const auto at = reinterpret_cast<uintptr_t>(memory);
  auto next = world().memory.upper_bound(at);
  if (next == world().memory.begin()) return false;
  --next;
  return next->second.second && at < next->first + next->second.first;
}

bool is_alive(const void* memory, size_t bytes) {
  const std::lock_guard lock(world().mutex);
  const auto at = reinterpret_cast<uintptr_t>(memory);
  auto next = world().memory.upper_bound(at);
  if (next == world().memory.begin()) return false;
  --next;
  return at + bytes <= next->first + next->second.first;
}

void pass(Direction direction) {
  std::unique_lock lock(world().mutex);
  const auto may_pass = [&] {
    const auto left = world().left.find(direction);
    return left == world().left.end() || left->second > 0;
  };
  world().changed.wait(lock, may_pass);
  const auto left = world().left.find(direction);
  if (left != world().left.end()) --left->second;
}

void note(Direction direction, int64_t stream, uint64_t bytes, bool alive) {
  const std::lock_guard lock(world().mutex);
  world().copies.push_back({direction, stream, bytes});
  world().faults += alive ? 0 : 1;
}

void check_alive() {
  const std::lock_guard lock(world().mutex);
  TORCH_CHECK(world().failure.empty(), world().failure);
}

int64_t hold_stream(const c10::Stream& stream) {
  int64_t hold = 0;
  {
    const std::lock_guard lock(world().mutex);
    hold = ++world().last_hold;
    world().holds.insert(hold);
  }
  queue(stream, [hold] {
    std::unique_lock lock(world().mutex);
    world().changed.wait(lock, [hold] { return world().holds.count(hold) == 0; });
  });
  return hold;
}

int wait_for_word(void* native_stream, const uint32_t* word) {
  if (!is_pinned(word)) return 1;
  queue(stream_of(native_stream), [word] {
    for (;;) {
      if (!is_pinned(word)) {
        const std::lock_guard lock(world().mutex);
        ++world().faults;
        return;
      }
      if (__atomic_load_n(word, __ATOMIC_ACQUIRE) != 0) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  return 0;
}

void let_go(int64_t hold) {
  const std::lock_guard lock(world().mutex);
  world().holds.erase(hold);
  world().changed.notify_all();
}

void hold_copies(Direction direction, int64_t after) {
  const std::lock_guard lock(world().mutex);
  if (after < 0) {
    world().left.erase(direction);
  } else {
    world().left[direction] = after;
  }
  world().changed.notify_all();
}

void fail(const std::string& text) {
  const std::lock_guard lock(world().mutex);
  world().failure = text;
}

uint64_t faults() {
  const std::lock_guard lock(world().mutex);
  return world().faults;
}

std::vector<Copy> copies() {
  const std::lock_guard lock(world().mutex);
  return world().copies;
}

void forget_copies() {
  const std::lock_guard lock(world().mutex);
  world().copies.clear();
}

}  // namespace toy

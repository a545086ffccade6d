#include "ps/rooms.h"

#include <cstring>
#include <utility>
#include <vector>

#include "ps/block_pool.h"

namespace sumcast::ps {

void Room::move_out() {
  const std::lock_guard lock(mutex_);
  const std::shared_ptr<char> block = make_block(memory_.size());
  std::memcpy(block.get(), memory_.data(), got_);
  const size_t size = memory_.size();
  memory_ = ::ps::SArray<char>(block.get(), size);
  memory_.ptr() = block;
}

::ps::SArray<char> Room::array() const {
  const std::lock_guard lock(mutex_);
  return memory_;
}

void Rooms::post(const Name& name, const ::ps::SArray<char>& memory) {
  const std::lock_guard lock(mutex_);
  entries_[name] = {memory, nullptr};
}

RoomPtr Rooms::claim(const Name& name, size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto it = entries_.find(name);
  if (it == entries_.end() || it->second.claimed != nullptr) return nullptr;
  if (it->second.memory.size() != bytes) {
    entries_.erase(it);
    return nullptr;
  }
  it->second.claimed = std::make_shared<Room>(it->second.memory);
  return it->second.claimed;
}

void Rooms::release(const Name& name) {
  const std::lock_guard lock(mutex_);
  entries_.erase(name);
}

/// The table's lock is let go before a room's is taken: that one is held while bytes arrive.
template <typename Matches>
void Rooms::withdraw_if(Matches&& matches) {
  std::vector<RoomPtr> claimed;
  {
    const std::lock_guard lock(mutex_);
    for (auto it = entries_.begin(); it != entries_.end();) {
      if (!matches(it->first)) {
        ++it;
        continue;
      }
      if (it->second.claimed != nullptr) claimed.push_back(it->second.claimed);
      it = entries_.erase(it);
    }
  }
  for (const RoomPtr& room : claimed) room->move_out();
}

void Rooms::withdraw(int app, int customer, int timestamp) {
  withdraw_if([&](const Name& name) {
    return name.app == app && name.customer == customer && name.timestamp == timestamp;
  });
}

void Rooms::withdraw(int app, int customer) {
  withdraw_if([&](const Name& name) { return name.app == app && name.customer == customer; });
}

void Rooms::withdraw_server(int server) {
  withdraw_if([&](const Name& name) { return name.server == server; });
}

size_t Rooms::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

}  // namespace sumcast::ps

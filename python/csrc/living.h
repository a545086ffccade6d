// Those of a kind of shared objects that are alive, for what goes over all of them.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

namespace sumcast_torch {

/// For any thread.
template <typename T>
class Living {
 public:
  void add(const std::shared_ptr<T>& one) {
    const std::lock_guard lock(mutex_);
    std::erase_if(all_, [](const auto& other) { return other.expired(); });
    all_.push_back(one);
  }

  std::vector<std::shared_ptr<T>> all() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<T>> found;
    for (const auto& one : all_) {
      if (auto alive = one.lock()) found.push_back(std::move(alive));
    }
    return found;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::weak_ptr<T>> all_;
};

}  // namespace sumcast_torch

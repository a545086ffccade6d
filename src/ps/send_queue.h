// Frames that wait to be written, the most urgent first (DMLC_PS_VAN_TYPE=p3).
//
// Who pushes gradients layer by layer wants the first layers' soonest, as the next step begins with
// them: a small urgent message is not to wait behind all that was pushed before it. Frames of equal
// priority stay in order. What has been taken is under way and is not overtaken any more, so little
// is taken at a time.
//
// Pure. For one thread at a time.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <utility>

namespace sumcast::ps {

template <typename Frame>
class SendQueue {
 public:
  void push(int priority, size_t bytes, Frame frame) {
    waiting_[priority].push_back({bytes, std::move(frame)});
    ++size_;
  }

  /// Hands over the next frames, at least one if there is one, until they have `enough` bytes.
  /// @param take  `void(Frame&&)`, called in the order of writing.
  template <typename Take>
  void take(size_t enough, Take&& take) {
    for (size_t taken = 0; taken < enough && !waiting_.empty();) {
      auto& [priority, frames] = *waiting_.begin();
      taken += frames.front().bytes;
      Frame frame = std::move(frames.front().frame);
      frames.pop_front();
      if (frames.empty()) waiting_.erase(waiting_.begin());
      --size_;
      take(std::move(frame));
    }
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  void clear() {
    waiting_.clear();
    size_ = 0;
  }

 private:
  struct Waiting {
    size_t bytes = 0;
    Frame frame;
  };

  std::map<int, std::deque<Waiting>, std::greater<>> waiting_;
  size_t size_ = 0;
};

}  // namespace sumcast::ps

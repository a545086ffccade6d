// Which frames of a connection must be sent again, and which were received before.
//
// TCP loses nothing; this is for PS_DROP_MSG, which loses frames above it, and for whatever else
// may stand between two nodes. A frame's id is the sender's epoch (a random number of its process,
// said once when the connection opens) and a 64-bit sequence that counts from 1. The receiver
// acknowledges the first sequence that it lacks and hands frames on in order. The sender repeats
// what is not acknowledged in time; its timeout follows the round trips it measures (RFC 6298,
// core/rtt.h), of frames that were sent once only (Karn), and doubles with each repeat. Two
// acknowledgements in a row that lack the same frame repeat that one at once.
// At most kWindow frames are under way; the rest waits.
//
// Pure: it says what is due and when next. For one thread at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "base/time.h"
#include "core/rtt.h"

namespace sumcast::ps {

inline constexpr size_t kResendWindow = 1024;

template <typename Frame>
class SendTable {
 public:
  explicit SendTable(const core::RttEstimator::Config& config = {}) : rtt_(config) {}

  /// Takes a frame. What is to be sent now comes from due().
  void push(Frame frame) { waiting_.push_back(std::move(frame)); }

  /// Calls `send(sequence, const Frame&)` for all that is to be sent at `now`: new frames as far as
  /// the window allows, and repeats.
  template <typename Send>
  void due(Instant now, Send&& send) {
    for (uint64_t i = 0; i < flying_.size(); ++i) {
      Flying& frame = flying_[i];
      if (frame.again > now) continue;
      ++frame.tries;
      ++repeats_;
      frame.again = now + patience(frame.tries);
      send(first_ + i, frame.frame);
    }
    while (!waiting_.empty() && flying_.size() < kResendWindow) {
      flying_.push_back({std::move(waiting_.front()), now, now + patience(0), 0});
      waiting_.pop_front();
      send(first_ + flying_.size() - 1, flying_.back().frame);
    }
  }

  /// The receiver has everything below `next`.
  void on_ack(uint64_t next, Instant now) {
    if (flying_.empty() || next < first_) return;
    if (next == first_) {
      if (++same_ == 2) flying_.front().again = std::min(flying_.front().again, now);
      return;
    }
    same_ = 0;
    bool sent_once = true;  // What stood behind a repeated frame was acknowledged late, too.
    Instant sent{};
    while (!flying_.empty() && first_ < next) {
      sent_once = sent_once && flying_.front().tries == 0;
      sent = flying_.front().sent;
      flying_.pop_front();
      ++first_;
    }
    if (sent_once) rtt_.on_sample(now - sent);
  }

  /// When due() next has something to say; Instant::never() if nothing is under way.
  Instant next_due() const {
    if (!waiting_.empty() && flying_.size() < kResendWindow) return Instant{1};
    Instant first = Instant::never();
    for (const Flying& frame : flying_) first = std::min(first, frame.again);
    return first;
  }

  bool empty() const { return flying_.empty() && waiting_.empty(); }
  uint64_t repeats() const { return repeats_; }
  Duration rto() const { return rtt_.rto(); }

 private:
  struct Flying {
    Frame frame;
    Instant sent, again;
    int tries = 0;
  };

  Duration patience(int tries) const { return rtt_.rto() * (1 << std::min(tries, 3)); }

  core::RttEstimator rtt_;
  std::deque<Flying> flying_;
  std::deque<Frame> waiting_;
  uint64_t first_ = 1;  ///< The sequence of flying_[0].
  int same_ = 0;        ///< Acknowledgements since the last one that said something new.
  uint64_t repeats_ = 0;
};

template <typename Frame>
class ReceiveTable {
 public:
  /// Takes a frame that has come; calls `deliver(Frame)` for it and for those behind it that it
  /// held up, in order. False if it was there before, or lies beyond the window.
  template <typename Deliver>
  bool on_frame(uint64_t sequence, Frame frame, Deliver&& deliver) {
    if (sequence < next_ || sequence >= next_ + kResendWindow) return false;
    if (!early_.emplace(sequence, std::move(frame)).second) return false;
    while (!early_.empty() && early_.begin()->first == next_) {
      Frame ready = std::move(early_.begin()->second);
      early_.erase(early_.begin());
      ++next_;
      deliver(std::move(ready));
    }
    return true;
  }

  /// What an acknowledgement says.
  uint64_t next() const { return next_; }

 private:
  std::map<uint64_t, Frame> early_;
  uint64_t next_ = 1;
};

}  // namespace sumcast::ps

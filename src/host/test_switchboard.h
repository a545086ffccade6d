// A stand-in for the network in tests of this room: leaders of several "hosts" in one process.
//
// It does what an aggregator does, by the plainest code: waits until all leaders have posted the
// same operation, then works it out for all of them.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <vector>

#include "host/team.h"
#include "numeric/fold_scalar.h"

namespace sumcast::host {

class Switchboard {
 public:
  explicit Switchboard(uint32_t hosts) : hosts_(hosts) {}

  /// The uplink of one host.
  std::unique_ptr<Uplink> uplink(uint32_t host) { return std::make_unique<Line>(*this, host); }
  /// All that is posted from now on fails.
  void cut(const Error& error) {
    const std::lock_guard lock(mutex_);
    cut_ = error;
    changed_.notify_all();
  }
  /// What crossed, counted once per host: elements posted.
  uint64_t elements() const { return elements_; }

 private:
  struct Posted {
    wire::OperationDescriptor what;
    const std::byte* in = nullptr;
    std::byte* out = nullptr;
  };
  struct Round {
    std::map<uint32_t, Posted> posted;
    bool done = false;
  };

  class Line final : public Uplink {
   public:
    Line(Switchboard& board, uint32_t host) : board_(board), host_(host) {}
    Result<void> post(const wire::OperationDescriptor& what, const std::byte* in,
                      std::byte* out) override {
      const std::lock_guard lock(board_.mutex_);
      if (board_.cut_) return fail(*board_.cut_);
      Round& round = board_.rounds_[posted_++];
      round.posted[host_] = {what, in, out};
      board_.elements_ += what.count;
      if (round.posted.size() == board_.hosts_) {
        board_.work_out(round);
        board_.changed_.notify_all();
      }
      return {};
    }
    Result<bool> collect(Instant) override {
      std::unique_lock lock(board_.mutex_);
      const uint64_t number = collected_++;
      board_.changed_.wait(lock, [&] { return board_.cut_ || board_.rounds_[number].done; });
      if (board_.cut_) return fail(*board_.cut_);
      return true;
    }

   private:
    Switchboard& board_;
    uint32_t host_;
    uint64_t posted_ = 0, collected_ = 0;
  };

  void work_out(Round& round) {
    using wire::OperationKind;
    const wire::OperationDescriptor& what = round.posted[0].what;
    const size_t one = element_bytes(what.type) * what.count;
    for (const auto& [host, posted] : round.posted) {
      EXPECT_EQ(wire::fingerprint_of(posted.what), wire::fingerprint_of(what));
      EXPECT_NE(posted.what.part_of, 0u);
    }
    std::vector<std::byte> result;
    const bool scatters = what.kind == OperationKind::kReduceScatter;
    if (what.kind == OperationKind::kAllGather) {
      for (const auto& [host, p] : round.posted) result.insert(result.end(), p.in, p.in + one);
    } else if (what.kind == OperationKind::kBroadcast) {
      const std::byte* from = round.posted[what.root].in;
      result.assign(from, from + one);
    } else if (what.kind != OperationKind::kBarrier) {
      std::vector<const std::byte*> sources;
      for (const auto& [host, p] : round.posted) sources.push_back(p.in);
      const size_t lanes = what.count * (scatters ? hosts_ : 1);
      result.resize(element_bytes(what.type) * lanes);
      numeric::scalar::fold(what.type, what.reduction, sources.data(), sources.size(), lanes,
                            hosts_, result.data());
    }
    for (const auto& [host, p] : round.posted) {
      if (what.kind == OperationKind::kReduce && host != what.root) continue;
      if (result.empty()) continue;
      const std::byte* from = result.data() + (scatters ? host * one : 0);
      std::memcpy(p.out, from, scatters ? one : result.size());
    }
    round.done = true;
  }

  uint32_t hosts_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint64_t, Round> rounds_;
  std::optional<Error> cut_;
  uint64_t elements_ = 0;
};

}  // namespace sumcast::host

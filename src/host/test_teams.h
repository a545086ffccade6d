// What the tests of this room share: the ranks of a group in threads, and an oracle of their sums.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/prng.h"
#include "host/handover.h"
#include "host/team.h"
#include "host/test_switchboard.h"
#include "numeric/codec_scalar.h"
#include "numeric/fold_scalar.h"
#include "runtime/clock.h"

namespace sumcast::host {

inline auth::Key test_key(uint8_t fill) {
  auth::Key key;
  key.bytes.fill(std::byte{fill});
  return key;
}

inline std::optional<Error> never_give_up() { return std::nullopt; }

inline Meeting test_meeting(uint32_t me, const Shape& shape, uint32_t subject = 1) {
  Meeting meeting;
  meeting.key = test_key(7);
  // Of this run, and also of processes forked from it.
  static const Incarnation kRun(static_cast<uint32_t>(::getpid()));
  meeting.incarnation = kRun;
  meeting.subject = subject;
  meeting.me = me;
  meeting.shape = shape;
  return meeting;
}

/// In a forked child: it does not outlive the test.
inline void die_with_parent() { ::prctl(PR_SET_PDEATHSIG, SIGKILL); }

/// Writes down what it hears.
class TestObserver final : public TeamObserver {
 public:
  void on_overdue(const wire::OperationDescriptor&) override { ++overdue; }
  void on_mismatch(uint32_t a, uint32_t, uint32_t b, uint32_t) override {
    seat_a = a;
    seat_b = b;
    ++mismatches;  // Last: it is what other threads look at.
  }
  std::atomic<int> overdue{0}, mismatches{0};
  uint32_t seat_a = 0, seat_b = 0;
};

/// A group of ranks, one thread each while something runs.
class TestTeams {
 public:
  using Outcomes = std::vector<Result<void>>;

  /// @param host_of  the host of each place.
  explicit TestTeams(const std::vector<uint32_t>& host_of)
      : observers(host_of.size()),
        board(Layout(host_of, 0).hosts()),
        teams_(host_of.size()),
        sequences_(host_of.size(), 0) {
    run_all([&](uint32_t place) -> Result<void> {
      Layout layout(host_of, place);
      const Shape shape =
          Team::shape_for(static_cast<uint32_t>(layout.neighbours().size()), layout.hosts());
      auto segment = meet(test_meeting(layout.my_seat(), shape, 100 + layout.my_host()),
                          runtime::monotonic_now() + 10s, never_give_up);
      if (!segment) return fail(segment.error());
      auto uplink = layout.hosts() > 1 && layout.leads() ? board.uplink(layout.my_host()) : nullptr;
      teams_[place] = std::make_unique<Team>(std::move(*segment), std::move(layout),
                                             std::move(uplink), observers[place], 100us);
      return {};
    });
    for (const auto& team : teams_) {
      if (!team) throw std::runtime_error("a team did not meet");
    }
  }

  uint32_t size() const { return static_cast<uint32_t>(teams_.size()); }
  Team& team(uint32_t place) { return *teams_[place]; }

  /// `body(place)` on a thread per rank.
  Outcomes run_all(const std::function<Result<void>(uint32_t)>& body) {
    Outcomes outcomes(size());
    std::vector<std::thread> threads;
    for (uint32_t place = 0; place < size(); ++place) {
      threads.emplace_back([&, place] { outcomes[place] = body(place); });
    }
    for (std::thread& thread : threads) thread.join();
    return outcomes;
  }

  /// One operation of `place`, numbered.
  Result<void> run(uint32_t place, wire::OperationDescriptor what, const void* in, void* out,
                   Duration timeout = 20s) {
    what.sequence = ++sequences_[place];
    return team(place).run({what, in, out, runtime::monotonic_now() + timeout});
  }

  std::vector<TestObserver> observers;
  Switchboard board;

 private:
  std::vector<std::unique_ptr<Team>> teams_;
  std::vector<uint32_t> sequences_;
};

inline void expect_success(const TestTeams::Outcomes& outcomes) {
  for (size_t place = 0; place < outcomes.size(); ++place) {
    EXPECT_TRUE(outcomes[place]) << "rank " << place << ": " << outcomes[place].error().what;
  }
}

using Bytes = std::vector<std::byte>;

/// What the tree of docs/numerics.md (N1) gives, one host after the other, by scalar code.
/// @param inputs  `count` elements of each place.
inline Bytes tree_sum(const Layout& layout, ElementType type, Reduction reduction,
                      const std::vector<Bytes>& inputs, size_t count) {
  const bool half = type == ElementType::kF16 || type == ElementType::kBF16;
  const bool rounds = reduction != Reduction::kMin && reduction != Reduction::kMax;
  const ElementType wide = half && rounds && layout.hosts() > 1 ? ElementType::kF32 : type;
  const auto format = type == ElementType::kF16 ? WireFormat::kFP16 : WireFormat::kBF16;
  const bool divides = reduction == Reduction::kAvg && type != ElementType::kBool;
  const Reduction adds = divides ? Reduction::kSum : reduction;
  if (layout.hosts() == 1) {
    std::vector<const std::byte*> sources;
    for (const Bytes& input : inputs) sources.push_back(input.data());
    Bytes out(count * element_bytes(type));
    numeric::scalar::fold(type, reduction, sources.data(), sources.size(), count, layout.size(),
                          out.data());
    return out;
  }
  std::vector<Bytes> partial(layout.hosts());
  for (uint32_t place = 0; place < layout.size(); ++place) {
    Bytes value = inputs[place];
    if (wide != type) {
      value.resize(count * sizeof(float));
      numeric::scalar::decode(format, inputs[place].data(), count,
                              reinterpret_cast<float*>(value.data()));
    }
    Bytes& sum = partial[layout.host_of(place)];
    if (sum.empty()) {
      sum = value;
      continue;
    }
    const std::array<const std::byte*, 2> two{sum.data(), value.data()};
    numeric::scalar::fold(wide, adds, two.data(), 2, count, 1, sum.data());
  }
  Bytes total = partial[0];
  for (uint32_t host = 1; host < layout.hosts(); ++host) {
    const std::array<const std::byte*, 2> two{total.data(), partial[host].data()};
    numeric::scalar::fold(wide, adds, two.data(), 2, count, 1, total.data());
  }
  const std::byte* source = total.data();
  if (divides)
    numeric::scalar::fold(wide, Reduction::kAvg, &source, 1, count, layout.size(), total.data());
  if (wide == type) return total;
  Bytes out(count * element_bytes(type));
  numeric::scalar::encode(format, reinterpret_cast<const float*>(total.data()), count, out.data());
  return out;
}

/// Random patterns; of floats one in sixteen is a NaN or an infinity.
inline Bytes random_bytes(Prng& prng, ElementType type, size_t count) {
  Bytes bytes(count * element_bytes(type));
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(prng.next_u64());
  if (type == ElementType::kF32) {
    for (size_t i = 0; i < count; i += 16) {
      const uint32_t special = i % 32 == 0 ? 0x7F800000 : 0xFFC00001;
      if (prng.below(4) == 0) std::memcpy(bytes.data() + i * 4, &special, 4);
    }
  }
  return bytes;
}

}  // namespace sumcast::host

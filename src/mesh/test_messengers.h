// What the tests of messages share: a messenger for each rank of a test world.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "mesh/messenger.h"
#include "mesh/test_world.h"

namespace sumcast::mesh {

inline constexpr GroupId kGroup{0};

class MessengerTest : public ::testing::Test {
 protected:
  explicit MessengerTest() {
    for (uint32_t rank = 0; rank < world_.size(); ++rank) {
      auto made = Messenger::create(world_.mesh(rank));
      EXPECT_TRUE(made.has_value());
      (*made)->open_group(kGroup);
      messengers_.push_back(std::move(*made));
    }
  }
  // Messengers go before the meshes that they use.
  ~MessengerTest() override { messengers_.clear(); }

  Messenger& at(uint32_t rank) { return *messengers_[rank]; }
  static Instant soon(Duration span = 20s) { return net::monotonic_now() + span; }
  static Sending to(uint16_t rank, const std::vector<uint32_t>& data, uint64_t tag = 1) {
    return {Rank(rank), reinterpret_cast<const std::byte*>(data.data()), 4 * data.size(), tag, 7};
  }
  static Receiving into(std::optional<Rank> from, std::vector<uint32_t>& data, uint64_t tag = 1) {
    return {from, reinterpret_cast<std::byte*>(data.data()), 4 * data.size(), tag, 7};
  }
  std::shared_ptr<Exchange> post(uint32_t rank, std::vector<Sending> sends,
                                 std::vector<Receiving> receives, Instant deadline,
                                 std::function<void()> on_done = {}) {
    auto posted = at(rank).post(kGroup, sends, receives, deadline, std::move(on_done));
    EXPECT_TRUE(posted.has_value()) << posted.error().what;
    return *posted;
  }
  Result<void> send(uint32_t rank, const Sending& what) {
    return at(rank).wait(*post(rank, {what}, {}, soon()), soon());
  }
  Result<void> receive(uint32_t rank, const Receiving& what) {
    return at(rank).wait(*post(rank, {}, {what}, soon()), soon());
  }

  TestWorld world_{3};
  std::vector<std::unique_ptr<Messenger>> messengers_;
};

inline std::vector<uint32_t> numbers(size_t count, uint32_t first) {
  std::vector<uint32_t> all(count);
  std::iota(all.begin(), all.end(), first);
  return all;
}

}  // namespace sumcast::mesh

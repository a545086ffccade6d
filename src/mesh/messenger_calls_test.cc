// Calls made of messages: ranks that make different ones notice, whoever comes first.
#include <gtest/gtest.h>

#include <mutex>
#include <thread>
#include <tuple>

#include "mesh/test_messengers.h"

namespace sumcast::mesh {
namespace {

TEST(CallTag, SaysNumberCallAndPart) {
  const uint64_t gather = call_tag(7, "gather to rank 0"), other = call_tag(7, "gather to rank 1");
  EXPECT_TRUE(is_call_tag(gather));
  EXPECT_FALSE(is_call_tag(7));
  EXPECT_EQ(call_number(gather), 7u);
  EXPECT_EQ(call_number(call_tag(UINT32_MAX, "x")), UINT32_MAX);
  EXPECT_TRUE(is_same_call(gather, gather + 255));
  EXPECT_FALSE(is_same_call(gather, other));
  EXPECT_FALSE(is_same_call(gather, call_tag(8, "gather to rank 0")));
  EXPECT_NE(call_digest(gather), call_digest(other));
  EXPECT_EQ(call_digest(gather) & 0xFF, 7u);
}

class CallsTest : public ::testing::Test {
 protected:
  CallsTest() {
    for (uint32_t rank = 0; rank < 2; ++rank) {
      auto made = Messenger::create(
          world_.mesh(rank), {}, [this, rank](GroupId, uint32_t mine, Rank peer, uint32_t theirs) {
            const std::lock_guard lock(mutex_);
            told_[rank].emplace_back(mine, peer.value, theirs);
          });
      (*made)->open_group(kGroup);
      messengers_.push_back(std::move(*made));
    }
  }
  ~CallsTest() override { messengers_.clear(); }

  /// A message of one word from rank 0 to rank 1.
  void send(uint64_t tag) {
    const Sending what{Rank(1), reinterpret_cast<const std::byte*>(&word_), 4, tag, 0};
    auto sent = messengers_[0]->post(kGroup, std::span(&what, 1), {}, soon());
    ASSERT_TRUE(sent && messengers_[0]->wait(**sent, soon()));
  }
  void receive(uint64_t tag) {
    const Receiving what{Rank(0), reinterpret_cast<std::byte*>(&word_), 4, tag, 0};
    auto got = messengers_[1]->post(kGroup, {}, std::span(&what, 1), soon());
    ASSERT_TRUE(got && messengers_[1]->wait(**got, soon()));
  }
  static Instant soon() { return net::monotonic_now() + 20s; }
  using Told = std::tuple<uint32_t, uint16_t, uint32_t>;
  std::vector<Told> told(uint32_t rank) {
    const std::lock_guard lock(mutex_);
    return told_[rank];
  }
  /// The messenger's thread tells behind what it has completed.
  void wait_until_told(uint32_t rank) {
    const Instant until = soon();
    while (told(rank).empty() && net::monotonic_now() < until) std::this_thread::sleep_for(1ms);
  }

  TestWorld world_{2};
  std::vector<std::unique_ptr<Messenger>> messengers_;
  std::mutex mutex_;
  std::vector<Told> told_[2];
  uint32_t word_ = 5;
};

TEST_F(CallsTest, AMessageOfAnotherCallIsToldOnceIfItComesLater) {
  const uint64_t scatter = messengers_[1]->note_call(kGroup, 1, "scatter");
  const uint64_t gather = messengers_[0]->note_call(kGroup, 1, "gather");
  send(gather);
  send(gather + 1);
  send(99);
  receive(99);  // Behind the others, on the same stream.
  wait_until_told(1);
  ASSERT_EQ(told(1).size(), 1u);
  EXPECT_EQ(told(1)[0], std::tuple(call_digest(scatter), uint16_t{0}, call_digest(gather)));
}

TEST_F(CallsTest, AndIfItCameBefore) {
  send(messengers_[0]->note_call(kGroup, 1, "gather"));
  send(messengers_[0]->note_call(kGroup, 2, "gather"));
  send(99);
  receive(99);
  EXPECT_TRUE(told(1).empty());
  messengers_[1]->note_call(kGroup, 1, "gather");
  EXPECT_TRUE(told(1).empty());
  messengers_[1]->note_call(kGroup, 2, "barrier");
  EXPECT_EQ(told(1).size(), 1u);
}

TEST_F(CallsTest, CallsAreFoundByNumberAndByDigest) {
  const uint64_t tag = messengers_[0]->note_call(kGroup, 3, "gather");
  messengers_[0]->note_call(kGroup, 4, "scatter");
  EXPECT_EQ(messengers_[0]->find_call(kGroup, 4, 0)->text, "scatter");
  EXPECT_EQ(messengers_[0]->find_call(kGroup, 0, call_digest(tag))->number, 3u);
  EXPECT_FALSE(messengers_[0]->find_call(kGroup, 5, 0));
  EXPECT_FALSE(messengers_[0]->find_call(kGroup, 0, 1));
}

}  // namespace
}  // namespace sumcast::mesh

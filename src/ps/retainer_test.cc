#include "ps/retainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sumcast::ps {
namespace {

::ps::Message request(int timestamp, bool push = true) {
  ::ps::Message message;
  message.meta.app_id = 3;
  message.meta.customer_id = 1;
  message.meta.timestamp = timestamp;
  message.meta.push = push;
  message.meta.pull = !push;
  return message;
}

std::vector<int> timestamps(const std::vector<::ps::Message>& messages) {
  std::vector<int> all;
  for (const auto& message : messages) all.push_back(message.meta.timestamp);
  return all;
}

TEST(Retainer, WhatIsNotAnsweredIsRepeatedInOrder) {
  Retainer retainer;
  for (int timestamp : {7, 5, 9}) retainer.keep(8, request(timestamp));
  retainer.keep(10, request(5));
  EXPECT_TRUE(retainer.on_answer(8, {3, 1, 5}, 0));
  EXPECT_THAT(timestamps(retainer.unanswered(8)), testing::ElementsAre(7, 9));
  EXPECT_THAT(timestamps(retainer.unanswered(10)), testing::ElementsAre(5));
  EXPECT_THAT(timestamps(retainer.unanswered(12)), testing::IsEmpty());
}

TEST(Retainer, ASecondAnswerIsTold) {
  Retainer retainer;
  retainer.keep(8, request(1));
  EXPECT_TRUE(retainer.on_answer(8, {3, 1, 1}, 0));
  EXPECT_FALSE(retainer.on_answer(8, {3, 1, 1}, 0));
  EXPECT_FALSE(retainer.on_answer(10, {3, 1, 1}, 0));
}

TEST(Retainer, AnsweredPushesAreSettledByTheDozenOrTheMegabyte) {
  Retainer retainer;
  for (int i = 0; i < 16; ++i) {
    retainer.keep(8, request(i));
    retainer.keep(8, request(100 + i, false));
    EXPECT_THAT(retainer.settled(8), testing::IsEmpty());
    retainer.on_answer(8, {3, 1, 100 + i}, 1 << 20);
    retainer.on_answer(8, {3, 1, i}, 10);
  }
  const auto settled = retainer.settled(8);
  ASSERT_EQ(settled.size(), 16u);
  EXPECT_EQ(settled.front(), (RequestId{3, 1, 0}));
  retainer.keep(8, request(20));
  retainer.on_answer(8, {3, 1, 20}, 1 << 20);
  EXPECT_EQ(retainer.settled(8).size(), 1u);
}

}  // namespace
}  // namespace sumcast::ps

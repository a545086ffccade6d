#include "ps/merge_shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "ps/heat.h"
#include "ps/merge_cut.h"
#include "ps/worth.h"

namespace sumcast::ps {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr Duration kWait = 20ms;

::ps::Message push(int timestamp, const std::vector<uint64_t>& keys,
                   const std::vector<float>& vals) {
  ::ps::Message message;
  message.meta.app_id = 0;
  message.meta.customer_id = 0;
  message.meta.head = 0;
  message.meta.timestamp = timestamp;
  message.meta.request = message.meta.push = true;
  message.AddData(::ps::SArray<uint64_t>(keys));
  message.AddData(::ps::SArray<float>(vals));
  return message;
}

std::vector<uint64_t> keys_of(const ::ps::Message& message) {
  const ::ps::SArray<uint64_t> keys(message.data[0]);
  return {keys.begin(), keys.end()};
}

std::vector<float> vals_of(const ::ps::Message& message) {
  const ::ps::SArray<float> vals(message.data[1]);
  return {vals.begin(), vals.end()};
}

class Shard : public testing::Test {
 protected:
  Shard() { shard_.reset({9, 11, 13}, kWait); }

  MergeShard shard_;
  Instant now_{1000};
};

TEST_F(Shard, ASumLeavesWhenAllWorkersHaveGiven) {
  shard_.on_part(13, 8, push(1, {5, 7}, {1, 2, 3, 4}), now_);
  shard_.on_part(9, 8, push(4, {7}, {10, 20}), now_);
  EXPECT_THAT(shard_.due(now_), IsEmpty());
  shard_.on_part(11, 8, push(2, {2}, {5, 6}), now_);
  const auto harvests = shard_.due(now_);
  ASSERT_THAT(harvests, SizeIs(1));
  EXPECT_EQ(harvests[0].server, 8);
  EXPECT_THAT(keys_of(harvests[0].message), ElementsAre(2, 5, 7));
  EXPECT_THAT(vals_of(harvests[0].message), ElementsAre(5, 6, 1, 2, 13, 24));
  EXPECT_THAT(harvests[0].parts, ElementsAre(PartName{9, {0, 0, 4}}, PartName{11, {0, 0, 2}},
                                             PartName{13, {0, 0, 1}}));
  const auto committed = shard_.on_committed(harvests[0].number);
  ASSERT_TRUE(committed);
  EXPECT_EQ(committed->server, 8);
  EXPECT_THAT(committed->parts, SizeIs(3));
  EXPECT_EQ(committed->rows_in, 4u);
  EXPECT_EQ(committed->rows_out, 3u);
  EXPECT_FALSE(shard_.on_committed(harvests[0].number));
}

TEST_F(Shard, TheSumIsTheFoldInOrderOfRanksWhoeverCameFirst) {
  // (1 + 1e8) - 1e8 is not 1 + (1e8 - 1e8) in float.
  shard_.on_part(13, 8, push(1, {5}, {-1e8f}), now_);
  shard_.on_part(11, 8, push(1, {5}, {1e8f}), now_);
  shard_.on_part(9, 8, push(1, {5}, {1}), now_);
  EXPECT_THAT(vals_of(shard_.due(now_)[0].message), ElementsAre((1.0f + 1e8f) - 1e8f));
}

TEST_F(Shard, WhoGivesNothingIsWaitedForALimitedTimeAndThenNotAtAll) {
  for (int i = 0; i < 3; ++i) {
    shard_.on_part(9, 8, push(i, {5}, {1}), now_);
    shard_.on_part(11, 8, push(i, {5}, {1}), now_);
    if (i < 2) {  // Faith in the third is halved each time.
      EXPECT_THAT(shard_.due(now_), IsEmpty());
      EXPECT_EQ(shard_.next_due(), now_ + kWait);
      now_ = now_ + kWait;
    }
    const auto harvests = shard_.due(now_);
    ASSERT_THAT(harvests, SizeIs(1));
    EXPECT_THAT(harvests[0].parts, SizeIs(2));
    shard_.on_committed(harvests[0].number);
  }
}

TEST_F(Shard, TheDeadAreNotWaitedFor) {
  shard_.on_part(9, 8, push(1, {5}, {1}), now_);
  shard_.on_part(11, 8, push(1, {5}, {1}), now_);
  shard_.on_worker_lost(13);
  EXPECT_THAT(shard_.due(now_), SizeIs(1));
}

TEST_F(Shard, BehindTwoHarvestsThatAreNotCommittedPartsGather) {
  std::vector<int> numbers;
  for (int i = 0; i < 4; ++i) {
    for (int worker : {9, 11, 13}) shard_.on_part(worker, 8, push(i, {5}, {1}), now_);
    for (const Harvest& harvest : shard_.due(now_)) numbers.push_back(harvest.number);
  }
  EXPECT_THAT(numbers, SizeIs(2));
  EXPECT_EQ(shard_.next_due(), Instant::never());
  shard_.on_committed(numbers[0]);
  const auto harvests = shard_.due(now_);
  ASSERT_THAT(harvests, SizeIs(1));
  EXPECT_THAT(vals_of(harvests[0].message), ElementsAre(6));
  shard_.on_server_lost(8);
  EXPECT_FALSE(shard_.on_committed(numbers[1]));
}

TEST_F(Shard, OtherServersCommandsAndWidthsAreOtherSums) {
  auto other = push(1, {5}, {1});
  other.meta.head = 3;
  for (int worker : {9, 11, 13}) {
    shard_.on_part(worker, 8, push(1, {5}, {1}), now_);
    shard_.on_part(worker, 10, push(1, {5}, {1}), now_);
    shard_.on_part(worker, 8, push(1, {5}, {1, 1}), now_);
    shard_.on_part(worker, 8, other, now_);
  }
  EXPECT_THAT(shard_.due(now_), SizeIs(4));
}

TEST(Rows, WhatCannotBeSummedHasNoShape) {
  EXPECT_TRUE(rows_of(push(1, {5}, {1, 2})));
  EXPECT_FALSE(rows_of(push(1, {}, {})));
  EXPECT_FALSE(rows_of(push(1, {5, 6}, {1, 2, 3})));
  auto lens = push(1, {5}, {1});
  lens.AddData(::ps::SArray<int>(1, 1));
  EXPECT_FALSE(rows_of(lens));
  auto whole = push(1, {5}, {1});
  whole.meta.data_type[1] = ::ps::INT32;
  EXPECT_FALSE(rows_of(whole));
}

TEST(Worth, PushesGoStraightWhereSumsDoNotPayButForAFewTries) {
  Worth worth;
  EXPECT_TRUE(worth.next());
  for (int i = 0; i < 8; ++i) worth.on_sum(100, 98);
  int cut = 0;
  for (int i = 1; i < 128; ++i) cut += worth.next() ? 1 : 0;
  EXPECT_EQ(cut, 7);
  for (int i = 0; i < 4; ++i) worth.on_sum(300, 100);
  EXPECT_TRUE(worth.pays());
}

TEST(Cut, EachKeyGoesToOnePlaceWithItsRow) {
  Heat heat(1);
  std::vector<uint64_t> keys;
  std::vector<float> vals;
  for (uint64_t i = 0; i < 100; ++i) {
    keys.push_back(i * 3);
    vals.push_back(static_cast<float>(i));
    vals.push_back(static_cast<float>(i) / 2);
  }
  const auto message = push(1, keys, vals);
  const RowShape shape = *rows_of(message);
  // The first time every key is cold.
  EXPECT_THAT(cut_push(message, shape, heat, {9, 11, 13}).parts, IsEmpty());
  const CutPush cut = cut_push(message, shape, heat, {9, -1, 13});
  ASSERT_THAT(cut.parts, SizeIs(2));
  std::set<uint64_t> seen;
  size_t most = 0;
  const auto check = [&](const ::ps::Message& part) {
    const auto own = keys_of(part);
    const auto rows = vals_of(part);
    ASSERT_EQ(rows.size(), 2 * own.size());
    most = std::max(most, own.size());
    for (size_t i = 0; i < own.size(); ++i) {
      EXPECT_TRUE(seen.insert(own[i]).second);
      EXPECT_EQ(rows[2 * i], static_cast<float>(own[i] / 3));
    }
    EXPECT_EQ(part.meta.data_size, part.data[0].size() + part.data[1].size());
  };
  check(cut.straight);
  for (const auto& [aggregator, part] : cut.parts) check(part);
  EXPECT_EQ(seen.size(), 100u);
  EXPECT_LT(most, 60u);
}

}  // namespace
}  // namespace sumcast::ps

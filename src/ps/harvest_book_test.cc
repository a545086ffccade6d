#include "ps/harvest_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ps/merge_ledger.h"

namespace sumcast::ps {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Verdict = HarvestBook::Verdict;

constexpr int kAggregator = 11;
const PartName kOne{9, {0, 0, 1}}, kTwo{13, {0, 0, 7}};

TEST(HarvestBook, AQuestionMayGoByAnotherName) {
  HarvestBook book;
  const auto number = book.on_harvest(kAggregator, 5, {kOne});
  ASSERT_TRUE(number);
  EXPECT_EQ(book.find(kAggregator, 5), number);
  EXPECT_FALSE(book.find(kAggregator, 6));
  EXPECT_FALSE(book.find(kAggregator + 2, 5));
  const PartName asked_as{9, {0, kReplayer, 0}};
  EXPECT_EQ(book.on_replay(kAggregator, kOne, asked_as), Verdict::kWait);
  EXPECT_THAT(book.on_response(*number)->asked, ElementsAre(asked_as));
  EXPECT_FALSE(book.find(kAggregator, 5));
}

TEST(HarvestBook, WhatAHarvestHasIsNotAppliedAgain) {
  HarvestBook book;
  const auto number = book.on_harvest(kAggregator, 5, {kOne, kTwo});
  ASSERT_TRUE(number);
  EXPECT_LT(*number, 0);
  EXPECT_EQ(book.on_replay(kAggregator, kOne), Verdict::kWait);
  const auto applied = book.on_response(*number);
  ASSERT_TRUE(applied);
  EXPECT_EQ(applied->aggregator, kAggregator);
  EXPECT_EQ(applied->number, 5);
  EXPECT_THAT(applied->asked, ElementsAre(kOne));
  EXPECT_EQ(book.on_replay(kAggregator, kTwo), Verdict::kApplied);
  EXPECT_FALSE(book.on_response(*number));
}

TEST(HarvestBook, AfterAReplayNothingMoreIsTakenFromThatAggregator) {
  HarvestBook book;
  EXPECT_EQ(book.on_replay(kAggregator, kOne), Verdict::kApply);
  EXPECT_FALSE(book.on_harvest(kAggregator, 6, {kOne}));
  EXPECT_TRUE(book.on_harvest(kAggregator + 2, 6, {kTwo}));
}

TEST(HarvestBook, PartsOfOneRequestAreToldApartByTheirAggregators) {
  HarvestBook book;
  book.on_response(*book.on_harvest(kAggregator, 1, {kOne}));
  EXPECT_EQ(book.on_replay(kAggregator + 2, kOne), Verdict::kApply);
  EXPECT_EQ(book.on_replay(kAggregator, kOne), Verdict::kApplied);
}

TEST(HarvestBook, WhatWorkersKnowIsForgotten) {
  HarvestBook book;
  const auto number = book.on_harvest(kAggregator, 1, {kOne, kTwo});
  book.on_response(*number);
  book.on_settled(kAggregator, 9, {kOne.id, {0, 0, 99}});
  EXPECT_EQ(book.size(), 1u);
  book.on_worker_lost(13);
  EXPECT_EQ(book.size(), 0u);
}

::ps::Message part(int timestamp) {
  ::ps::Message message;
  message.meta.app_id = message.meta.customer_id = 0;
  message.meta.timestamp = timestamp;
  message.meta.recver = 8;
  return message;
}

TEST(MergeLedger, APushIsDoneWhenAllItsPartsAre) {
  using Told = MergeLedger::Verdict;
  MergeLedger ledger;
  ledger.open(part(3).meta, true, {{9, part(3)}, {11, part(3)}});
  const RequestId id{0, 0, 3};
  EXPECT_EQ(ledger.on_answer(8, {0, 0, 4}), Told::kUnknown);
  EXPECT_EQ(ledger.on_committed(9, 8, id), Told::kPending);
  EXPECT_EQ(ledger.on_committed(9, 8, id), Told::kUnknown);
  EXPECT_EQ(ledger.on_answer(8, id), Told::kPending);
  EXPECT_EQ(ledger.on_committed(11, 8, id), Told::kDone);
  EXPECT_EQ(ledger.size(), 0u);
}

TEST(MergeLedger, PartsOfADeadAggregatorAreSentStraight) {
  using Told = MergeLedger::Verdict;
  MergeLedger ledger;
  ledger.open(part(3).meta, false, {{9, part(3)}, {11, part(3)}});
  ledger.open(part(4).meta, false, {{11, part(4)}});
  const auto taken = ledger.take_parts(11);
  ASSERT_EQ(taken.size(), 2u);
  EXPECT_EQ(taken[0].meta.recver, 8);
  EXPECT_THAT(ledger.take_parts(11), IsEmpty());
  EXPECT_EQ(ledger.on_answer(8, {0, 0, 4}), Told::kDone);
  EXPECT_EQ(ledger.on_answer(8, {0, 0, 3}), Told::kPending);
  EXPECT_EQ(ledger.on_committed(9, 8, {0, 0, 3}), Told::kDone);
}

}  // namespace
}  // namespace sumcast::ps

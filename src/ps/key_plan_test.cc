#include "ps/key_plan.h"

#include <gtest/gtest.h>

namespace sumcast::ps {
namespace {

using ::ps::Partition;

TEST(KeyPlan, KeysGoByHashUnlessSomebodyAsksForRanges) {
  KeyPlan plan;
  EXPECT_EQ(plan.decide(2), Partition::kHash);
  ASSERT_TRUE(plan.add("worker a", {}));
  EXPECT_EQ(plan.decide(2), Partition::kHash);
  ASSERT_TRUE(plan.add("server b", {std::nullopt, true}));
  ASSERT_TRUE(plan.add("worker c", {}));
  EXPECT_EQ(plan.decide(2), Partition::kRanges);
  EXPECT_EQ(plan.notice(), "");
}

TEST(KeyPlan, TheSettingOfOneProcessCountsForAll) {
  KeyPlan plan;
  ASSERT_TRUE(plan.add("worker a", {}));
  ASSERT_TRUE(plan.add("worker b", {Partition::kRanges, false}));
  EXPECT_EQ(plan.decide(3), Partition::kRanges);
  EXPECT_EQ(plan.notice(), "");
}

TEST(KeyPlan, WhoAsksHasRangesWhateverIsSetAndWhoSetItIsTold) {
  KeyPlan plan;
  ASSERT_TRUE(plan.add("the scheduler", {Partition::kHash, false}));
  EXPECT_EQ(plan.decide(2), Partition::kHash);
  ASSERT_TRUE(plan.add("worker b", {Partition::kHash, true}));
  EXPECT_EQ(plan.decide(2), Partition::kRanges);
  EXPECT_EQ(plan.notice(),
            "SUMCAST_PS_PARTITION=hash at the scheduler is without effect: the program of worker b "
            "uses GetServerKeyRanges or set_slicer, so keys go by ranges");
}

TEST(KeyPlan, SettingsThatContradictAreRefused) {
  KeyPlan plan;
  ASSERT_TRUE(plan.add("10.0.0.1:7000", {Partition::kHash, false}));
  const auto added = plan.add("10.0.0.2:7000", {Partition::kRanges, false});
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().what,
            "SUMCAST_PS_PARTITION is ranges there, but hash at 10.0.0.1:7000; set it to the same "
            "for all processes, or for none");
  EXPECT_EQ(plan.decide(2), Partition::kHash) << "who is refused says nothing";
}

TEST(KeyPlan, WhoHasGoneBeforeTheStartDoesNotCount) {
  KeyPlan plan;
  ASSERT_TRUE(plan.add("10.0.0.1:7000", {Partition::kRanges, true}));
  plan.remove("10.0.0.1:7000");
  EXPECT_EQ(plan.decide(2), Partition::kHash);
  EXPECT_TRUE(plan.add("10.0.0.2:7000", {Partition::kHash, false}));
}

TEST(KeyPlan, OneServerHasAllKeysInOrder) {
  KeyPlan plan;
  ASSERT_TRUE(plan.add("worker a", {Partition::kHash, false}));
  EXPECT_EQ(plan.decide(1), Partition::kRanges);
}

}  // namespace
}  // namespace sumcast::ps

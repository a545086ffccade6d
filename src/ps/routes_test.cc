#include "ps/routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sumcast::ps {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Routes, TheNextServerStandsIn) {
  Routes routes;
  routes.reset(3, true);
  EXPECT_THAT(routes.on_lost(2), IsEmpty());
  EXPECT_EQ(routes.at(2), 0);
  EXPECT_EQ(routes.at(0), 0);
  EXPECT_EQ(routes.at(1), 1);
  EXPECT_FALSE(routes.has_backup(1));
  EXPECT_TRUE(routes.has_backup(0));
}

TEST(Routes, WhatWasTakenOverIsLostWithItsSecondServer) {
  Routes routes;
  routes.reset(4, true);
  EXPECT_THAT(routes.on_lost(0), IsEmpty());
  EXPECT_THAT(routes.on_lost(1), ElementsAre(0));
  EXPECT_EQ(routes.at(0), -1);
  EXPECT_EQ(routes.at(1), 2);
  EXPECT_THAT(routes.on_lost(1), IsEmpty());
}

TEST(Routes, NobodyStandsInForWhoHasLeftNorHeForOthers) {
  Routes routes;
  routes.reset(3, true);
  EXPECT_THAT(routes.on_lost(0), IsEmpty());
  EXPECT_THAT(routes.on_left(1), ElementsAre(0, 1));
  EXPECT_EQ(routes.at(0), -1);
  EXPECT_EQ(routes.at(1), -1);
  routes.reset(3, true);
  EXPECT_THAT(routes.on_left(1), ElementsAre(1));
  EXPECT_FALSE(routes.has_backup(0));
  EXPECT_THAT(routes.on_lost(0), ElementsAre(0));
}

TEST(Routes, AServerWhoseBackupWentFirstIsLost) {
  Routes routes;
  routes.reset(3, true);
  EXPECT_THAT(routes.on_lost(1), IsEmpty());
  EXPECT_THAT(routes.on_lost(0), ElementsAre(0));
  EXPECT_EQ(routes.at(1), 2);
}

TEST(Routes, WithoutReplicasEveryDeathLosesKeys) {
  Routes routes;
  routes.reset(2, false);
  EXPECT_FALSE(routes.has_backup(0));
  EXPECT_THAT(routes.on_lost(0), ElementsAre(0));
}

}  // namespace
}  // namespace sumcast::ps

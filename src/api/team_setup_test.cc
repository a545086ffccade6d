// Plans of hosts that a coordinator of another version might make.
#include "api/team_setup.h"

#include <gtest/gtest.h>

namespace sumcast::api {
namespace {

control::GroupPlan plan_of(std::vector<uint32_t> hosts) {
  control::GroupPlan plan;
  for (size_t i = 0; i < hosts.size(); ++i) plan.ranks.emplace_back(static_cast<uint16_t>(i));
  plan.hosts = std::move(hosts);
  return plan;
}

TEST(TeamSetup, AHostWithSeveralRanksMakesATeam) {
  const auto shared = shared_layout(plan_of({0, 0, 1}), Rank(1));
  ASSERT_TRUE(shared && *shared);
  EXPECT_EQ((*shared)->my_seat(), 1u);
  const auto flat = shared_layout(plan_of({0, 1, 2}), Rank(1));
  ASSERT_TRUE(flat);
  EXPECT_FALSE(*flat);
}

TEST(TeamSetup, APlanThatMakesNoSenseIsRefused) {
  EXPECT_FALSE(shared_layout(plan_of({1, 0}), Rank(0)));
  EXPECT_FALSE(shared_layout(plan_of({0, 0}), Rank(9)));
}

TEST(TeamSetup, MorePlacesThanAPieceHasLanesAreRefused) {
  std::vector<uint32_t> hosts(300, 0);
  for (uint32_t host = 1; host <= 200; ++host) hosts.push_back(host);
  const auto layout = shared_layout(plan_of(hosts), Rank(0));
  ASSERT_FALSE(layout);
  EXPECT_NE(layout.error().what.find("201 hosts of up to 300 ranks"), std::string::npos);
}

}  // namespace
}  // namespace sumcast::api

// Every order of deliveries, losses, duplicates, calls and timers in small worlds.
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "sim/small/explorer.h"

namespace sumcast::sim {
namespace {

constexpr uint64_t kStatesMax = 4'000'000;

std::string story(const Exploration& result) {
  std::string text = result.violation + "\n";
  for (const std::string& step : result.path) text += "  " + step + "\n";
  return text;
}

struct Case {
  const char* name;
  SmallWorldConfig config;
};

void PrintTo(const Case& made, std::ostream* out) { *out << made.name; }

class SmallWorlds : public testing::TestWithParam<Case> {};

TEST_P(SmallWorlds, DeliverEveryChunkOnceInEveryOrderOfEvents) {
  const Exploration result = explore(GetParam().config, kStatesMax);
  EXPECT_TRUE(result.violation.empty()) << story(result);
  EXPECT_TRUE(result.exhausted) << "gave up after " << result.states << " states";
  EXPECT_GT(result.states, 1000u);
  RecordProperty("states", std::to_string(result.states));
}

SmallWorldConfig make(std::vector<SmallOperation> operations, uint32_t in_flight_max, uint8_t drops,
                      uint8_t doubles, uint8_t timers) {
  return {std::move(operations), in_flight_max, drops, doubles, timers};
}

INSTANTIATE_TEST_SUITE_P(
    All, SmallWorlds,
    testing::Values(Case{"FourChunksOneDropOneDouble", make({{4, 0}}, 2, 1, 1, 0)},
                    Case{"FourChunksOneDropOneTimer", make({{4, 0}}, 2, 1, 0, 1)},
                    Case{"FourChunksTwoDrops", make({{4, 1}}, 2, 2, 0, 0)},
                    Case{"ThreeChunksOneDropOneTimer", make({{3, 1}}, 2, 1, 0, 1)},
                    Case{"ThreeChunksTwoDoubles", make({{3, 0}}, 2, 0, 2, 0)},
                    Case{"TwoChunksOneOfEach", make({{2, 0}}, 2, 1, 1, 1)},
                    Case{"TwoChunksTwoTimers", make({{2, 0}}, 2, 0, 0, 2)},
                    Case{"TwoOperationsOneDoubleOneTimer", make({{1, 0}, {2, 1}}, 2, 0, 1, 1)},
                    Case{"TwoOperationsOneDropOneDouble", make({{3, 0}, {2, 1}}, 2, 1, 1, 0)},
                    Case{"OneInFlight", make({{1, 0}, {1, 0}, {1, 1}}, 1, 1, 0, 1)},
                    Case{"OneInFlightOfThreeChunks", make({{3, 0}, {1, 0}}, 1, 1, 1, 0)}),
    [](const auto& made) { return std::string(made.param.name); });

TEST(SmallWorld, FindsThatAVersionBitAloneIsUnsafeUnderReordering) {
  // Published SwitchML: a contribution that is resent and arrives two phases late is counted as
  // new (dense-aggregation.md 2.4). It takes three phases of a slot and one duplicate.
  SmallWorldConfig config{{{6, 0}}, 2, 0, 1, 0};
  config.version_bit_only = true;
  const Exploration result = explore(config, kStatesMax);
  EXPECT_FALSE(result.violation.empty());
  EXPECT_FALSE(result.path.empty());
}

}  // namespace
}  // namespace sumcast::sim

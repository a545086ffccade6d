#include "ps/log_gate.h"

#include <gtest/gtest.h>

namespace sumcast::ps {
namespace {

::ps::Message response(int app, int timestamp) {
  ::ps::Message message;
  message.meta.app_id = app;
  message.meta.timestamp = timestamp;
  return message;
}

TEST(LogGate, AResponseWaitsForAllPushesBeforeIt) {
  LogGate gate;
  gate.reset(true);
  EXPECT_TRUE(gate.pass(response(0, 1)));
  gate.log(0);
  gate.log(0);
  EXPECT_FALSE(gate.pass(response(0, 2)));
  gate.log(0);
  EXPECT_FALSE(gate.pass(response(0, 3)));
  EXPECT_TRUE(gate.pass(response(1, 4)));  // Another application.
  std::vector<::ps::Message> free;
  EXPECT_TRUE(gate.on_handled(0, 1, free));
  EXPECT_TRUE(free.empty());
  EXPECT_TRUE(gate.on_handled(0, 2, free));
  ASSERT_EQ(free.size(), 1u);
  EXPECT_EQ(free[0].meta.timestamp, 2);
  EXPECT_FALSE(gate.pass(response(0, 5)));
  EXPECT_TRUE(gate.on_handled(0, 3, free));
  EXPECT_EQ(free.size(), 3u);
  EXPECT_TRUE(gate.pass(response(0, 6)));
}

TEST(LogGate, AnImpossibleCountIsRefused) {
  LogGate gate;
  gate.reset(true);
  gate.log(0);
  std::vector<::ps::Message> free;
  EXPECT_FALSE(gate.on_handled(0, 2, free));
  EXPECT_TRUE(gate.on_handled(0, 1, free));
  EXPECT_FALSE(gate.on_handled(0, 0, free));
}

TEST(LogGate, WithoutABackupNothingIsHeld) {
  LogGate gate;
  gate.reset(true);
  gate.log(0);
  EXPECT_FALSE(gate.pass(response(0, 1)));
  EXPECT_EQ(gate.open().size(), 1u);
  gate.log(0);
  EXPECT_TRUE(gate.pass(response(0, 2)));
}

}  // namespace
}  // namespace sumcast::ps

#include "ps/settings.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace sumcast::ps {
namespace {

using Variables = std::map<std::string, std::string>;

Variables job(const Variables& more) {
  Variables all = {{"DMLC_ROLE", "worker"},
                   {"DMLC_NUM_WORKER", "2"},
                   {"DMLC_NUM_SERVER", "2"},
                   {"DMLC_PS_ROOT_URI", "host"},
                   {"DMLC_PS_ROOT_PORT", "9000"}};
  for (const auto& [name, value] : more) all[name] = value;
  return all;
}

Result<Settings> read(const Variables& more) {
  const Variables all = job(more);
  return read_settings([&](const char* name) -> const char* {
    const auto it = all.find(name);
    return it != all.end() && !it->second.empty() ? it->second.c_str() : nullptr;
  });
}

TEST(Settings, EveryVariableThatPsLiteDocumentsIsObeyed) {
  const auto settings = read({{"DMLC_NODE_HOST", "10.0.0.2"},
                              {"DMLC_INTERFACE", "eth1"},
                              {"PORT", "7000"},
                              {"DMLC_PS_VAN_TYPE", "p3"},
                              {"DMLC_PS_WATER_MARK", "100"},
                              {"DMLC_USE_KUBERNETES", "1"},
                              {"PS_VERBOSE", "2"},
                              {"PS_RESEND_TIMEOUT", "50"},
                              {"PS_DROP_MSG", "10"},
                              {"PS_HEARTBEAT_INTERVAL", "1"},
                              {"PS_HEARTBEAT_TIMEOUT", "9"}});
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->node_host, "10.0.0.2");
  EXPECT_EQ(settings->interface, "eth1");
  EXPECT_EQ(settings->port, 7000);
  EXPECT_TRUE(settings->by_priority);
  EXPECT_EQ(settings->water_mark, 100u);
  EXPECT_TRUE(settings->any_address);
  EXPECT_EQ(settings->verbose, 2);
  EXPECT_EQ(settings->resend_timeout, Duration(50ms));
  EXPECT_EQ(settings->drop, 0.1);
  EXPECT_EQ(settings->heartbeat, Duration(1s));
  EXPECT_EQ(settings->silence_max, Duration(9s));
  EXPECT_TRUE(settings->ignored.empty());
}

TEST(Settings, ADeathIsKnownWithinTwoSecondsByDefault) {
  for (const char* const timeout : {"", "0"}) {
    const auto settings = read({{"PS_HEARTBEAT_TIMEOUT", timeout}});
    ASSERT_TRUE(settings);
    EXPECT_LT(settings->silence_max + settings->heartbeat, Duration(2s));
    EXPECT_EQ(settings->partition, std::nullopt);
  }
}

TEST(Settings, ALocalJobNeedsNoNetwork) {
  const auto settings = read({{"DMLC_LOCAL", "1"}, {"DMLC_NODE_HOST", "10.0.0.2"}});
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->root_host, "127.0.0.1");
  EXPECT_EQ(settings->node_host, "127.0.0.1");
}

TEST(Settings, WhatHasNoMeaningHereIsNamedIfItAsksForSomething) {
  const auto settings = read({{"DMLC_ENABLE_RDMA", "ibverbs"},
                              {"DMLC_ENABLE_UCX", "0"},
                              {"BYTEPS_ZMQ_NTHREADS", "4"},
                              {"DMLC_PS_VAN_TYPE", "p3"},
                              {"PS_RESEND", "1"}});
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->ignored, (std::vector<std::string>{"DMLC_ENABLE_RDMA", "BYTEPS_ZMQ_NTHREADS",
                                                         "DMLC_PS_VAN_TYPE=p3 with PS_RESEND"}));
}

TEST(Settings, ErrorsNameTheVariableAndWhatItMayBe) {
  const auto role = read({{"DMLC_ROLE", "boss"}});
  ASSERT_FALSE(role);
  EXPECT_EQ(role.error().what, "DMLC_ROLE=boss: must be worker, server or scheduler");
  const auto mark = read({{"DMLC_PS_WATER_MARK", "-1"}});
  ASSERT_FALSE(mark);
  EXPECT_NE(mark.error().what.find("DMLC_PS_WATER_MARK=-1"), std::string::npos);
  const auto missing = read({{"DMLC_PS_ROOT_PORT", ""}});
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().what.find("DMLC_PS_ROOT_PORT is not set"), std::string::npos);
}

}  // namespace
}  // namespace sumcast::ps

// What variables and launchers say is what a context gets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "runtime/log.h"
#include "sumcast/sumcast.hpp"

namespace sumcast {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

/// Variables that are unset again when the test ends.
class OptionsOf : public testing::Test {
 protected:
  void set(const std::string& name, const std::string& value) {
    ::setenv(name.c_str(), value.c_str(), 1);
    names_.push_back(name);
  }
  void TearDown() override {
    for (const std::string& name : names_) ::unsetenv(name.c_str());
    ASSERT_TRUE(runtime::configure_log({}));
    runtime::set_log_rank(std::nullopt);
  }

 private:
  std::vector<std::string> names_;
};

TEST_F(OptionsOf, EveryVariableOfTransportAndHeartbeatsIsHeeded) {
  set("SUMCAST_FLOWS", "4");
  set("SUMCAST_WINDOW", "40");
  set("SUMCAST_SOCKET_BUFFER", "1000000");
  set("SUMCAST_MTU", "9000");
  set("SUMCAST_SOCKET_FAMILY", "AF_INET6");
  set("SUMCAST_HEARTBEAT_INTERVAL", "100ms");
  set("SUMCAST_HEARTBEAT_DEATH", "3s");
  const auto options = Options::from_settings();
  ASSERT_TRUE(options) << options.error().what;
  EXPECT_EQ(options->flows, 4u);
  EXPECT_EQ(options->window, 40u);
  EXPECT_EQ(options->socket_buffer_bytes, 1'000'000);
  EXPECT_EQ(options->mtu, 9000u);
  EXPECT_EQ(options->family, "AF_INET6");
  EXPECT_EQ(options->heartbeat, milliseconds(100));
  EXPECT_EQ(options->death, milliseconds(3000));
}

TEST_F(OptionsOf, UnsetVariablesLeaveTheDefaults) {
  const auto options = Options::from_settings();
  ASSERT_TRUE(options) << options.error().what;
  const Options standard;
  EXPECT_EQ(options->flows, standard.flows);
  EXPECT_EQ(options->window, standard.window);
  EXPECT_EQ(options->socket_buffer_bytes, standard.socket_buffer_bytes);
  EXPECT_EQ(options->heartbeat, standard.heartbeat);
  EXPECT_EQ(options->death, standard.death);
  EXPECT_EQ(options->job, "sumcast");
}

TEST_F(OptionsOf, HeartbeatsThatWouldKillAreRefused) {
  set("SUMCAST_HEARTBEAT_DEATH", "300ms");
  const auto options = Options::from_settings();
  ASSERT_FALSE(options);
  EXPECT_THAT(options.error().what, HasSubstr("at least twice heartbeat.interval"));
}

TEST_F(OptionsOf, AJobIsCalledWhatItsUserSaysElseWhatItsLauncherSaysElseWhereItMeets) {
  set("SLURM_PROCID", "1");
  set("SLURM_NTASKS", "2");
  EXPECT_EQ(Options::from_environment()->job, "sumcast");
  set("MASTER_ADDR", "10.0.0.1");
  set("MASTER_PORT", "2000");
  EXPECT_EQ(Options::from_environment()->job, "10.0.0.1:2000");
  set("SLURM_JOB_ID", "4711");
  set("SLURM_STEP_ID", "0");
  EXPECT_EQ(Options::from_environment()->job, "slurm-4711.0");
  EXPECT_EQ(Options::from_environment()->coordinator, "10.0.0.1:2001");
  set("SUMCAST_JOB", "mine");
  EXPECT_EQ(Options::from_environment()->job, "mine");
  EXPECT_EQ(Options::from_environment()->rank, 1u);
}

TEST_F(OptionsOf, TheLogGoesWhereTheVariablesSayAndTellsTheAddress) {
  const std::string path = testing::TempDir() + "options_log_" + std::to_string(::getpid());
  set("SUMCAST_DEBUG", "INFO");
  set("SUMCAST_DEBUG_FILE", path);
  const auto options = Options::from_settings();
  ASSERT_TRUE(options) << options.error().what;
  ASSERT_TRUE(Context::create(*options));
  std::ifstream file(path);
  const std::string log{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(log, HasSubstr("INFO NET using 127.0.0.1 to reach rank 0 at 127.0.0.1:"));
  std::filesystem::remove(path);
}

TEST_F(OptionsOf, SocketBuffersThatTheKernelDoesNotGrantNameTheSysctl) {
  const std::string path = testing::TempDir() + "buffers_log_" + std::to_string(::getpid());
  set("SUMCAST_DEBUG_FILE", path);
  set("SUMCAST_SOCKET_BUFFER", "1073741824");  // Above any net.core.rmem_max that people set.
  const auto options = Options::from_settings();
  ASSERT_TRUE(options) << options.error().what;
  ASSERT_TRUE(Context::create(*options));
  std::ifstream file(path);
  const std::string log{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(log, HasSubstr("sysctl -w net.core.rmem_max=1073741824"));
  std::filesystem::remove(path);
}

TEST_F(OptionsOf, AFamilyThatDoesNotExistIsAnError) {
  Options options;
  options.family = "IPv6";
  const auto context = Context::create(options);
  ASSERT_FALSE(context);
  EXPECT_THAT(context.error().what, HasSubstr("there are AF_INET and AF_INET6"));
}

TEST_F(OptionsOf, AFamilyThatAnAddressIsNotOfIsAnError) {
  Options options;
  options.family = "AF_INET6";
  options.insecure = true;
  options.aggregator = "127.0.0.1:4700";
  const auto context = Context::create(options);
  ASSERT_FALSE(context);
  EXPECT_THAT(context.error().what, HasSubstr("is an IPv4 address, but IPv6 is wanted"));
}

}  // namespace
}  // namespace sumcast

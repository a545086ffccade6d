// The demo as a user meets it: the real program, real workers, real daemon, small runs. It finds
// `sumcast` beside this test program, and skips where the data set is not installed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "lab/process.h"
#include "runtime/clock.h"
#include "trainer/idx.h"

namespace sumcast::cli {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class DemoEndToEnd : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(trainer::kFashionMnistDirectory)) GTEST_SKIP() << "package not installed";
    ASSERT_TRUE(fs::exists(program())) << program() << " has not been built";
    fs::remove_all(directory());
    fs::create_directories(directory() + "/tmp");
  }
  void TearDown() override { fs::remove_all(directory()); }

  static std::string program() {
    return (fs::read_symlink("/proc/self/exe").parent_path() / "sumcast").string();
  }
  static std::string directory() {
    return testing::TempDir() + "demo_" +
           testing::UnitTest::GetInstance()->current_test_info()->name();
  }
  static std::string report() { return directory() + "/report.html"; }

  static lab::Process start(const std::vector<std::string>& flags) {
    std::vector<std::string> command = {program(), "demo", "--report", report()};
    command.insert(command.end(), flags.begin(), flags.end());
    lab::SpawnOptions options;
    options.env = {"TMPDIR=" + directory() + "/tmp"};
    options.output = lab::Redirect::pipe();
    options.errors = lab::Redirect::file(directory() + "/errors");
    return lab::spawn_process(command, options).value();
  }
  static std::string errors() { return contents(directory() + "/errors"); }
  static std::string contents(const std::string& path) {
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  /// Whatever the demo put aside while it ran.
  static std::vector<std::string> left_over() {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory() + "/tmp")) {
      names.push_back(entry.path().string());
    }
    return names;
  }
};

/// Processes whose parent is `parent` and that run as workers.
std::vector<pid_t> workers_of(pid_t parent) {
  std::vector<pid_t> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    std::ifstream stat(entry.path() / "stat"), command(entry.path() / "cmdline");
    std::string line, arguments;
    if (!std::getline(stat, line) || !std::getline(command, arguments)) continue;
    // "pid (name) state ppid ..."; the name may hold anything but ends at the last parenthesis.
    std::istringstream rest(line.substr(line.rfind(')') + 1));
    char state = 0;
    pid_t its_parent = 0;
    rest >> state >> its_parent;
    if (its_parent == parent && arguments.find("demo-worker") != std::string::npos) {
      found.push_back(std::stoi(entry.path().filename()));
    }
  }
  return found;
}

/// The workers of `demo` once there are `count`; an empty list if they never come.
std::vector<pid_t> wait_for_workers(lab::Process& demo, size_t count) {
  const Instant until = runtime::monotonic_now() + 60s;
  while (runtime::monotonic_now() < until && !demo.poll()) {
    const std::vector<pid_t> workers = workers_of(demo.pid());
    if (workers.size() == count) return workers;
    std::this_thread::sleep_for(10ms);
  }
  return {};
}

TEST_F(DemoEndToEnd, TrainsWithEveryMethodAndTheCanonicalOnesEndWithTheSameBits) {
  lab::Process demo = start({"--workers", "3", "--epochs", "1", "--images", "1152", "--json"});
  const std::string output = demo.read_output(200s).value();
  EXPECT_TRUE(demo.wait(10s).value().ok()) << errors();
  std::vector<std::string> methods, canonical;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    const auto row = nlohmann::json::parse(line);
    const std::string method = row.at("method");
    methods.push_back(method);
    EXPECT_GT(row.at("step_us"), row.at("comm_us")) << line;
    EXPECT_GT(row.at("comm_us"), 0.0) << line;
    EXPECT_GT(row.at("accuracy"), 20.0) << line;
    EXPECT_EQ(row.at("identical"), true) << line;
    if (method != "in-network-bf16" && method != "ring")
      canonical.push_back(row.at("weights_hash"));
  }
  EXPECT_THAT(methods, ElementsAre("in-network", "in-network-bf16", "direct", "ring", "server"));
  ASSERT_EQ(canonical.size(), 3u);
  EXPECT_THAT(canonical, testing::Each(canonical[0]));
  EXPECT_THAT(contents(report()), AllOf(HasSubstr("<svg"), HasSubstr("in-network-bf16")));
  EXPECT_THAT(left_over(), IsEmpty());
}

TEST_F(DemoEndToEnd, WithoutNamespacesItRunsOnLoopbackAndSaysWhatIsLost) {
  lab::Process demo = start({"--workers", "2", "--epochs", "1", "--images", "512", "--loopback",
                             "--method", "in-network,ring"});
  const std::string output = demo.read_output(100s).value();
  EXPECT_TRUE(demo.wait(10s).value().ok()) << errors();
  EXPECT_THAT(errors(), AllOf(HasSubstr("--loopback was given"), HasSubstr("not available")));
  EXPECT_THAT(output, AllOf(HasSubstr("time per step"), HasSubstr("in-network"), HasSubstr("ring"),
                            HasSubstr("report:  " + report()), HasSubstr("total:")));
  EXPECT_THAT(output, Not(HasSubstr("bit-identical across")));  // One canonical method alone.
}

TEST_F(DemoEndToEnd, AWorkerThatIsKilledEndsItWithItsNameAndNothingStays) {
  lab::Process demo = start({"--workers", "3", "--method", "direct", "--batch", "64"});
  const std::vector<pid_t> workers = wait_for_workers(demo, 3);
  ASSERT_EQ(workers.size(), 3u) << errors();
  ::kill(workers[1], SIGKILL);
  EXPECT_EQ(demo.wait(30s).value().code, 1);
  EXPECT_THAT(errors(), HasSubstr("died: signal 9 (Killed)"));
  for (const pid_t worker : workers) EXPECT_NE(::kill(worker, 0), 0) << worker << " still runs";
  EXPECT_THAT(left_over(), IsEmpty());
  EXPECT_FALSE(fs::exists(report()));
}

TEST_F(DemoEndToEnd, CtrlCEndsItAtOnceAndNothingStays) {
  lab::Process demo = start({"--workers", "2", "--method", "ring", "--batch", "32"});
  const std::vector<pid_t> workers = wait_for_workers(demo, 2);
  ASSERT_EQ(workers.size(), 2u) << errors();
  ::kill(demo.pid(), SIGINT);
  EXPECT_EQ(demo.wait(20s).value().code, 128 + SIGINT);
  EXPECT_THAT(errors(), HasSubstr("interrupted"));
  for (const pid_t worker : workers) EXPECT_NE(::kill(worker, 0), 0) << worker << " still runs";
  EXPECT_THAT(left_over(), IsEmpty());
}

TEST_F(DemoEndToEnd, WhatCannotWorkIsSaidBeforeAnythingStarts) {
  lab::Process demo = start({"--workers", "1", "--rate", "fast", "--method", "ringo"});
  EXPECT_EQ(demo.wait(20s).value().code, 2);
  EXPECT_THAT(errors(), AllOf(HasSubstr("--workers"), HasSubstr("--rate"), HasSubstr("ringo")));
  lab::Process elsewhere = start({"--data", "/no/such/place"});
  EXPECT_EQ(elsewhere.wait(20s).value().code, 2);
  EXPECT_THAT(errors(), AllOf(HasSubstr("/no/such/place"), HasSubstr("dataset-fashion-mnist")));
}

}  // namespace
}  // namespace sumcast::cli

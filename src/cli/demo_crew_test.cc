// The crew with shell scripts for workers and daemon: they speak the protocol and misbehave at
// will.
#include "cli/demo_crew.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>

#include "lab/interrupt.h"

namespace sumcast::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// $rank is known afterwards, and $plan.
constexpr const char* kReadPlan = R"(
  read -r plan
  rank=${plan#*\"rank\":}; rank=${rank%%,*}
)";
constexpr const char* kReady = R"(
  echo '{"kind":"ready"}'
  read -r go; test "$go" = go || exit 9
)";
constexpr const char* kTrain = R"(
  if [ $rank = 0 ]; then
    echo '{"kind":"step","step":1,"loss":2.5}'
    echo '{"kind":"step","step":2,"loss":1.5}'
    accuracy=',"accuracy":0.5'
  fi
  echo '{"kind":"result","step_ns":5,"reductions_ns":[1,2],"losses":[2.5,1.5],"gradient_bytes":8,"width":1,"wire":"native",'\
'"weights_hash":"00000000000000aa","datagram_bytes":10'"$accuracy}"
  cat > /dev/null
)";
constexpr const char* kDaemon = "trap 'exit 0' TERM; echo '{}'; while :; do sleep 0.05; done";

class DemoCrewTest : public testing::Test {
 protected:
  DemoCrewTest() : directory_(testing::TempDir() + "/demo_crew_" + name()) {
    std::filesystem::create_directories(directory_);
  }
  ~DemoCrewTest() override { std::filesystem::remove_all(directory_); }

  static std::string name() {
    return testing::UnitTest::GetInstance()->current_test_info()->name();
  }

  Result<MethodRun> run(const char* method, const std::string& worker,
                        const std::string& daemon = kDaemon) {
    lab::ClusterOptions nodes;
    nodes.workers = 3;
    nodes.with_server = true;
    lab::Cluster cluster = lab::Cluster::on_loopback(nodes).value();
    CrewOptions options;
    options.worker = {"/bin/sh", "-c", worker};
    options.daemon = {"/bin/sh", "-c", daemon};
    options.directory = directory_;
    const auto on_step = [this](const WorkerStep& step) {
      steps_.push_back(step);
      if (on_step_) on_step_();
    };
    return run_method(cluster, options, demo_method_from_name(method).value(), WorkerPlan{},
                      on_step);
  }

  std::string directory_;
  std::vector<WorkerStep> steps_;
  std::function<void()> on_step_;
};

std::string sequence(std::initializer_list<const char*> parts) {
  std::string script;
  for (const char* part : parts) script += part;
  return script;
}

std::string why(const Result<MethodRun>& run) { return run ? "it went well" : run.error().what; }

TEST_F(DemoCrewTest, CollectsAResultFromEveryWorkerAndStepsFromRankZero) {
  const auto run = this->run("in-network", sequence({kReadPlan, kReady, kTrain}));
  ASSERT_TRUE(run.has_value()) << run.error().what;
  ASSERT_EQ(run->workers.size(), 3u);
  EXPECT_EQ(run->workers[2].weights_hash, 0xAAu);
  EXPECT_EQ(run->workers[0].accuracy, 0.5);
  EXPECT_TRUE(run->link_bytes.empty());
  ASSERT_EQ(steps_.size(), 2u);
  EXPECT_EQ(steps_[1].loss, 1.5f);
}

TEST_F(DemoCrewTest, GivesEachWorkerItsOwnRankAndAllTheSameMeetingPlace) {
  const std::string worker = sequence({kReadPlan, "echo $plan > $TEST_DIR/$rank;", kReady, kTrain});
  ::setenv("TEST_DIR", directory_.c_str(), 1);
  ASSERT_TRUE(run("direct", worker).has_value());
  std::vector<WorkerPlan> plans;
  for (const char* rank : {"0", "1", "2"}) {
    std::ifstream file(directory_ + "/" + rank);
    std::string line;
    std::getline(file, line);
    plans.push_back(decode_plan(line).value());
    EXPECT_EQ(std::to_string(plans.back().rank), rank);
    EXPECT_EQ(plans.back().world, 3u);
    EXPECT_EQ(plans.back().method, "direct");
    EXPECT_EQ(plans.back().aggregator, "");
    EXPECT_EQ(plans.back().coordinator, plans[0].coordinator);
  }
  EXPECT_THAT(plans[0].coordinator, testing::StartsWith("127.0.1.1:"));
}

TEST_F(DemoCrewTest, BlamesTheWorkerThatWasKilledAndNotThoseWhoReportIt) {
  const auto run = this->run(
      "ring", sequence({kReadPlan, kReady,
                        "if [ $rank = 1 ]; then sleep 0.2; kill -9 $$; fi\n"
                        "echo '{\"kind\":\"failed\",\"text\":\"rank 1 is gone\"}'; exit 1"}));
  EXPECT_EQ(why(run), "worker 1 died: signal 9 (Killed)");
}

TEST_F(DemoCrewTest, QuotesTheLastWordsOfAWorkerThatCrashed) {
  const auto run =
      this->run("ring", sequence({kReadPlan,
                                  "if [ $rank = 2 ]; then echo first >&2; echo 'slots > 0' >&2; "
                                  "echo >&2; exit 7; fi;",
                                  kReady, "exec sleep 100"}));
  EXPECT_EQ(why(run), "worker 2 died: exit code 7; its last words: slots > 0");
}

TEST_F(DemoCrewTest, NamesTheFirstOfThoseWhoComplain) {
  const auto run = this->run(
      "ring", sequence({kReadPlan, "test $rank = 1 || sleep 0.3;",
                        "echo \"{\\\"kind\\\":\\\"failed\\\",\\\"text\\\":\\\"no route from "
                        "$rank\\\"}\"; exit 1"}));
  EXPECT_EQ(why(run), "worker 1 failed: no route from 1");
}

TEST_F(DemoCrewTest, BlamesTheDaemonThatDiedInTheMiddle) {
  const auto run = this->run("in-network", sequence({kReadPlan, kReady, R"(
                               sleep 0.3
                               echo '{"kind":"failed","text":"the coordinator is gone"}'; exit 1)"}),
                             "echo '{}'; sleep 0.2; echo 'pool is full' >&2; exit 3");
  EXPECT_EQ(why(run), "sumcastd died: exit code 3; its last words: pool is full");
}

TEST_F(DemoCrewTest, SaysWhyTheDaemonDidNotStart) {
  const auto run = this->run("server", "exit 1", "echo 'port 4711 is taken' >&2; exit 1");
  EXPECT_EQ(why(run), "sumcastd died: exit code 1; its last words: port 4711 is taken");
}

TEST_F(DemoCrewTest, TakesStrayOutputForAFailure) {
  const auto run = this->run("ring", sequence({kReadPlan, "echo hello; exec sleep 100"}));
  EXPECT_THAT(why(run), HasSubstr("\"hello\" is not a worker's message"));
}

TEST_F(DemoCrewTest, AWorkerThatCrashesWhileLeavingIsAFailureToo) {
  const auto run = this->run(
      "ring", sequence({kReadPlan, kReady, kTrain, "test $rank = 1 && kill -6 $$; exit 0"}));
  EXPECT_THAT(why(run), HasSubstr("worker 1 died: signal 6"));
}

TEST_F(DemoCrewTest, LeavesNoProcessBehindWhenOneFails) {
  ::setenv("TEST_DIR", directory_.c_str(), 1);
  const auto run =
      this->run("in-network", sequence({kReadPlan, "echo $$ > $TEST_DIR/pid$rank;", kReady,
                                        "test $rank = 1 && exit 4; exec sleep 100"}));
  EXPECT_EQ(why(run), "worker 1 died: exit code 4");
  for (const char* rank : {"0", "2"}) {
    std::ifstream file(directory_ + "/pid" + rank);
    pid_t pid = 0;
    ASSERT_TRUE(file >> pid);
    EXPECT_NE(::kill(pid, 0), 0) << "worker " << rank << " still runs";
  }
}

TEST_F(DemoCrewTest, AnInterruptEndsTheRun) {
  const lab::ScopedInterrupt interrupt;
  // Once, whoever of the workers is heard before the run looks: the third signal would end us.
  on_step_ = [] {
    if (!lab::ScopedInterrupt::requested()) ::raise(SIGTERM);
  };
  const auto run = this->run(
      "ring", sequence({kReadPlan, kReady, "echo '{\"kind\":\"step\",\"step\":1,\"loss\":1}';",
                        "exec sleep 100"}));
  EXPECT_EQ(why(run), "interrupted");
}

}  // namespace
}  // namespace sumcast::cli

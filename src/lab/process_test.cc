#include "lab/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <fstream>
#include <thread>

#include "lab/interrupt.h"

namespace sumcast::lab {
namespace {

using testing::HasSubstr;

std::vector<std::string> shell(const std::string& script) { return {"/bin/sh", "-c", script}; }

SpawnOptions piped() {
  SpawnOptions options;
  options.input = Redirect::pipe();
  options.output = Redirect::pipe();
  return options;
}

TEST(Process, ReportsExitCodesAndSignals) {
  Process failing = spawn_process(shell("exit 3"), {}).value();
  EXPECT_EQ(failing.wait(10s).value().code, 3);
  EXPECT_EQ(failing.wait(10s).value().describe(), "exit code 3");
  Process dying = spawn_process(shell("kill -TERM $$"), {}).value();
  EXPECT_EQ(dying.wait(10s).value().signal, SIGTERM);
}

TEST(Process, CarriesInputAndOutputLineByLine) {
  Process cat = spawn_process({"cat"}, piped()).value();
  ASSERT_TRUE(cat.write_input("one\ntwo"));
  EXPECT_EQ(cat.read_line(10s).value(), "one");
  cat.close_input();
  EXPECT_EQ(cat.read_line(10s).value(), "two");
  EXPECT_EQ(cat.read_line(10s).error().code, ErrorCode::kUnavailable);
  EXPECT_TRUE(cat.wait(10s).value().ok());
}

TEST(Process, TellsWhenALineDoesNotComeInTime) {
  Process silent = spawn_process({"cat"}, piped()).value();
  EXPECT_EQ(silent.read_line(1ms).error().code, ErrorCode::kTimeout);
  EXPECT_EQ(silent.wait(1ms).error().code, ErrorCode::kTimeout);
  EXPECT_FALSE(silent.poll().has_value());
}

TEST(Process, SurvivesWritingToAChildThatNoLongerReads) {
  Process gone = spawn_process(shell("exec <&-; echo closed; sleep 60"), piped()).value();
  EXPECT_EQ(gone.read_line(10s).value(), "closed");
  EXPECT_EQ(gone.write_input("x").error().code, ErrorCode::kUnavailable);
}

TEST(Process, NamesTheProgramThatCannotBeRun) {
  const auto missing = spawn_process({"no-such-program-here"}, {});
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().what, HasSubstr("no-such-program-here"));
  std::string path = testing::TempDir() + "not-a-program";
  std::ofstream(path) << "\x7f"
                         "ELF";
  ASSERT_EQ(std::system(("chmod +x " + path).c_str()), 0);
  const auto broken = spawn_process({path}, {});
  ASSERT_FALSE(broken);
  EXPECT_THAT(broken.error().what, HasSubstr("Exec format error"));
  std::remove(path.c_str());
}

TEST(Process, ReplacesVariablesOfTheEnvironmentAndKeepsTheRest) {
  SpawnOptions options = piped();
  options.env = {"HOME=/elsewhere", "SUMCAST_TEST_VALUE=a=b"};
  Process child =
      spawn_process(shell("echo $HOME $SUMCAST_TEST_VALUE ${PATH:+kept}"), options).value();
  EXPECT_EQ(child.read_line(10s).value(), "/elsewhere a=b kept");
}

TEST(Process, MergesErrorsIntoOutputAndWritesFiles) {
  const std::string path = testing::TempDir() + "lab_process_output";
  SpawnOptions options;
  options.output = Redirect::file(path);
  options.errors = Redirect::merge();
  Process child = spawn_process(shell("echo out; echo err >&2"), options).value();
  EXPECT_TRUE(child.wait(10s).value().ok());
  std::ifstream file(path);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_EQ(text, "out\nerr\n");
  std::remove(path.c_str());
}

TEST(Process, TakesItsDescendantsAlong) {
  pid_t grandchild = 0;
  {
    Process parent = spawn_process(shell("sleep 600 & echo $!; wait"), piped()).value();
    grandchild = std::stoi(parent.read_line(10s).value());
    ASSERT_EQ(::kill(grandchild, 0), 0);
  }
  // The kernel needs a moment to bury it, and then somebody else has to reap it.
  const auto gone = [&] {
    std::ifstream stat("/proc/" + std::to_string(grandchild) + "/stat");
    std::string pid, name, state;
    return !(stat >> pid >> name >> state) || state == "Z" || name != "(sleep)";
  };
  for (int i = 0; i < 1000 && !gone(); ++i) std::this_thread::sleep_for(10ms);
  EXPECT_TRUE(gone());
}

TEST(RunToEnd, QuotesWhatAFailingProgramSaid) {
  const auto failed = run_to_end(shell("echo no luck >&2; exit 2"), "", 10s);
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().what, HasSubstr("exit code 2: no luck"));
  EXPECT_EQ(run_to_end({"cat"}, "text", 10s).value(), "text");
}

TEST(ScopedInterrupt, SetsAFlagAndPassesTheSignalToChildren) {
  Process child;
  {
    const ScopedInterrupt interrupt;
    EXPECT_FALSE(ScopedInterrupt::requested());
    child =
        spawn_process(shell("trap 'exit 7' TERM; echo up; while :; do sleep 0.05; done"), piped())
            .value();
    ASSERT_EQ(child.read_line(10s).value(), "up");
    ASSERT_EQ(::raise(SIGINT), 0);
    EXPECT_TRUE(ScopedInterrupt::requested());
    EXPECT_EQ(ScopedInterrupt::signal_number(), SIGINT);
    EXPECT_EQ(child.wait(10s).value().code, 7);
  }
  EXPECT_FALSE(ScopedInterrupt::requested());
  const ScopedInterrupt next;
  EXPECT_FALSE(ScopedInterrupt::requested());
}

TEST(ScopedInterrupt, KillsStubbornChildrenAtTheSecondSignal) {
  const ScopedInterrupt interrupt;
  Process child =
      spawn_process(shell("trap '' TERM; echo up; while :; do sleep 0.05; done"), piped()).value();
  ASSERT_EQ(child.read_line(10s).value(), "up");
  ::raise(SIGTERM);
  ::raise(SIGTERM);
  EXPECT_EQ(child.wait(10s).value().signal, SIGKILL);
}

}  // namespace
}  // namespace sumcast::lab

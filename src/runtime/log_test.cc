#include "runtime/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "runtime/repeat_filter.h"

namespace sumcast::runtime {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

class LogTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "log_XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    path_ = directory_ + "/log";
  }
  void TearDown() override {
    set_log_rank(std::nullopt);
    ASSERT_TRUE(configure_log({}));
    std::filesystem::remove_all(directory_);
  }
  void configure(const std::string& level, const std::string& subsystems = "ALL") {
    const Result<void> done = configure_log({level, subsystems, path_});
    ASSERT_TRUE(done) << done.error().what;
  }
  std::vector<std::string> lines() const {
    std::ifstream file(path_);
    std::vector<std::string> all;
    for (std::string line; std::getline(file, line);) all.push_back(line);
    return all;
  }

  std::string directory_;
  std::string path_;
};

TEST_F(LogTest, LinesAreShapedLikeThoseOfNccl) {
  configure("INFO");
  set_log_rank(3);
  log_info(Subsystem::kNet, "using {}:{}", "eth0", "10.0.0.3");
  set_log_rank(std::nullopt);
  log_warn(Subsystem::kInit, "careful");
  ASSERT_EQ(lines().size(), 2u);
  const std::string before =
      "\\[[0-9]{4}(-[0-9]{2}){2} [0-9]{2}(:[0-9]{2}){2}\\.[0-9]{3}\\] [^:.]+:[0-9]+:[0-9]+ ";
  EXPECT_THAT(lines()[0],
              MatchesRegex(before + "\\[3\\] SUMCAST INFO NET using eth0:10\\.0\\.0\\.3"));
  EXPECT_THAT(lines()[1], MatchesRegex(before + "\\[-\\] SUMCAST WARN INIT careful"));
}

TEST_F(LogTest, LevelsIncludeThoseBelow) {
  const auto shown = [this](const std::string& level) {
    std::filesystem::remove(path_);
    configure(level);
    log_version("sumcast 0.1");
    log_warn(Subsystem::kColl, "warn");
    log_info(Subsystem::kColl, "info");
    log_trace(Subsystem::kColl, "trace");
    return lines().size();
  };
  EXPECT_EQ(shown("WARN"), 1u);
  EXPECT_EQ(shown("VERSION"), 2u);
  EXPECT_EQ(shown("info"), 3u);
  EXPECT_EQ(shown("TRACE"), 4u);
}

TEST_F(LogTest, SubsystemsAreChosenOrExcludedButWarningsPass) {
  configure("TRACE", "NET,auth");
  EXPECT_TRUE(log_enabled(LogLevel::kTrace, Subsystem::kNet));
  EXPECT_TRUE(log_enabled(LogLevel::kInfo, Subsystem::kAuth));
  EXPECT_FALSE(log_enabled(LogLevel::kInfo, Subsystem::kInit));
  EXPECT_TRUE(log_enabled(LogLevel::kWarn, Subsystem::kInit));
  configure("INFO", "^NET");
  EXPECT_FALSE(log_enabled(LogLevel::kInfo, Subsystem::kNet));
  EXPECT_TRUE(log_enabled(LogLevel::kInfo, Subsystem::kDaemon));
  EXPECT_FALSE(log_enabled(LogLevel::kTrace, Subsystem::kDaemon));
}

TEST_F(LogTest, MistakesInTheVariablesAreNamed) {
  EXPECT_EQ(configure_log({"LOUD", "ALL", ""}).error().what,
            "'LOUD' is not a debug level; choose one of VERSION, WARN, INFO, TRACE");
  EXPECT_THAT(configure_log({"INFO", "NET,TYPO", ""}).error().what,
              HasSubstr("'TYPO' is not a debug subsystem; choose from ALL, INIT"));
  EXPECT_THAT(configure_log({"INFO", "ALL", directory_ + "/absent/log"}).error().what,
              HasSubstr("cannot open debug file"));
}

TEST_F(LogTest, TheFileNameTakesHostAndProcess) {
  path_ = directory_ + "/log.%h.%p.100%";
  configure("WARN");
  log_warn(Subsystem::kInit, "here");
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
    names.push_back(entry.path().filename());
  }
  ASSERT_EQ(names.size(), 1u);
  EXPECT_THAT(names[0], MatchesRegex("log\\.[^.%]+\\." + std::to_string(::getpid()) + "\\.100%"));
}

TEST_F(LogTest, ThreadsDoNotMixTheirLines) {
  configure("INFO");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 100; ++i) log_info(Subsystem::kColl, "thread {} line {} end", t, i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::vector<std::string> all = lines();
  EXPECT_EQ(all.size(), 400u);
  EXPECT_THAT(all, Each(MatchesRegex(".* SUMCAST INFO COLL thread [0-9] line [0-9]+ end")));
}

TEST_F(LogTest, ARepeatedLineIsHeldBackAndItsCountTold) {
  configure("WARN");
  for (int i = 0; i < 1000; ++i) log_warn(Subsystem::kNet, "buffer is full");
  flush_log();
  // On a slow machine a window may end meanwhile, so the numbers are added up, not assumed.
  size_t told = 0;
  for (const std::string& line : lines()) {
    const size_t count = line.find("(and ");
    told += count == std::string::npos ? 1 : std::stoul(line.substr(count + 5));
  }
  EXPECT_EQ(told, 1000u);
  EXPECT_LT(lines().size(), 1000u);
}

TEST(RepeatFilter, ShowsAFewAWindowAndCountsTheRest) {
  RepeatFilter filter;
  const Instant start{1'000'000};
  uint32_t shown = 0;
  for (int i = 0; i < 100; ++i) shown += filter.admit("full", start + i * 1ms) ? 1 : 0;
  EXPECT_EQ(shown, RepeatFilter::kShownPerWindow);
  EXPECT_TRUE(filter.admit("other", start + 100ms));
  EXPECT_FALSE(filter.expire(start + 999ms));
  const auto over = filter.expire(start + 1s);
  ASSERT_TRUE(over);
  EXPECT_EQ(over->text, "full");
  EXPECT_EQ(over->hidden, 100u - RepeatFilter::kShownPerWindow);
  EXPECT_FALSE(filter.expire(start + 5s));
  EXPECT_TRUE(filter.admit("full", start + 5s));
}

TEST(RepeatFilter, ForgetsTheOldestTextWhenThereAreMany) {
  RepeatFilter filter;
  Instant now{1'000'000};
  for (int i = 0; i < 6; ++i) filter.admit("old", now);
  EXPECT_FALSE(filter.admit("old", now));
  for (size_t i = 0; i < RepeatFilter::kTextsMax; ++i) {
    EXPECT_TRUE(filter.admit("text " + std::to_string(i), now + 1ms));
  }
  EXPECT_TRUE(filter.admit("old", now + 2ms));
}

}  // namespace
}  // namespace sumcast::runtime

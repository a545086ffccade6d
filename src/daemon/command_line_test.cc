#include "daemon/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "auth/key_file.h"

namespace sumcast::daemon {
namespace {

using testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

std::variant<CommandLine, ExitNow> parse(std::vector<const char*> words,
                                         const Variables& variables = {}) {
  words.insert(words.begin(), "sumcastd");
  return parse_command_line(static_cast<int>(words.size()), words.data(),
                            [&](const char* name) -> std::optional<std::string> {
                              const auto found = variables.find(name);
                              if (found == variables.end()) return std::nullopt;
                              return found->second;
                            });
}

DaemonOptions options(const std::vector<const char*>& words, const Variables& variables = {}) {
  auto parsed = parse(words, variables);
  if (const auto* exit_now = std::get_if<ExitNow>(&parsed)) {
    ADD_FAILURE() << exit_now->text;
    return {};
  }
  return std::get<CommandLine>(parsed).daemon;
}

ExitNow refusal(const std::vector<const char*>& words, const Variables& variables = {}) {
  auto parsed = parse(words, variables);
  if (const auto* exit_now = std::get_if<ExitNow>(&parsed)) return *exit_now;
  ADD_FAILURE() << "was accepted";
  return {};
}

class KeyFile {
 public:
  KeyFile() {
    std::filesystem::remove(path);
    EXPECT_TRUE(auth::write_key_file(path).has_value());
  }
  ~KeyFile() { std::filesystem::remove(path); }
  const std::string path = testing::TempDir() + "sumcastd_command_line.key";
};

TEST(CommandLine, DefaultsServeOnAllInterfacesAndStatusOnLoopback) {
  const DaemonOptions o = options({"--insecure"});
  EXPECT_EQ(o.listen.text(), "0.0.0.0:4700");
  EXPECT_EQ(o.http->text(), "127.0.0.1:4701");
  EXPECT_FALSE(o.key.has_value());
  EXPECT_FALSE(o.faults.active());
}

TEST(CommandLine, FlagsBeatVariablesWhichBeatTheFile) {
  const std::string file = testing::TempDir() + "sumcastd_command_line.toml";
  std::ofstream(file) << "[daemon]\nlisten = \"127.0.0.1:1\"\nthreads = 5\n"
                         "slots_per_thread = 77\n";
  const DaemonOptions o =
      options({"--insecure", "--config", file.c_str(), "--listen", "127.0.0.1:3"},
              {{"SUMCAST_LISTEN", "127.0.0.1:2"}, {"SUMCAST_THREADS", "6"}});
  EXPECT_EQ(o.listen.port(), 3);
  EXPECT_EQ(o.threads, 6u);
  EXPECT_EQ(o.slots_per_job, 77u);
  std::filesystem::remove(file);
}

TEST(CommandLine, FaultsAreTakenOver) {
  const DaemonOptions o = options({"--insecure", "--loss", "0.25", "--dup", "0.5", "--reorder",
                                   "0.125", "--delay", "2ms", "--seed", "9"});
  EXPECT_EQ(o.faults.loss, 0.25);
  EXPECT_EQ(o.faults.duplicate, 0.5);
  EXPECT_EQ(o.faults.reorder, 0.125);
  EXPECT_EQ(o.faults.delay, 2ms);
  EXPECT_EQ(o.faults.seed, 9u);
}

TEST(CommandLine, HttpNoneMeansNoStatusPages) {
  EXPECT_FALSE(options({"--insecure", "--http", "none"}).http.has_value());
}

TEST(CommandLine, ZeroThreadsMeansOnePerCpu) {
  EXPECT_GE(options({"--insecure", "--threads", "0"}).threads, 1u);
}

TEST(CommandLine, NeitherKeyNorInsecureIsRefusedWithWhatToDo) {
  const ExitNow exit_now = refusal({});
  EXPECT_EQ(exit_now.code, kExitUsage);
  EXPECT_EQ(exit_now.text,
            "sumcastd: no key; give --key-file F (sumcast makes one: sumcast keygen F) or "
            "--insecure\n");
}

TEST(CommandLine, AFlagAboutTheKeyOverrulesWhatTheEnvironmentSaysAboutIt) {
  const KeyFile key;
  EXPECT_TRUE(options({"--key-file", key.path.c_str()}, {{"SUMCAST_INSECURE", "1"}}).key);
  EXPECT_FALSE(options({"--insecure"}, {{"SUMCAST_KEY_FILE", key.path}}).key);
  EXPECT_TRUE(options({}, {{"SUMCAST_KEY_FILE", key.path}}).key);
}

TEST(CommandLine, KeyAndInsecureTogetherAreRefused) {
  EXPECT_EQ(refusal({"--insecure", "--key-file", "x"}).code, kExitUsage);
  EXPECT_THAT(refusal({}, {{"SUMCAST_KEY_FILE", "x"}, {"SUMCAST_INSECURE", "1"}}).text,
              HasSubstr("drop one of the two"));
}

TEST(CommandLine, AnUnreadableKeyIsNamed) {
  EXPECT_THAT(refusal({"--key-file", "/nonexistent/key"}).text,
              HasSubstr("cannot open key file /nonexistent/key"));
}

TEST(CommandLine, WhatMakesNoSenseIsRefusedAndNamed) {
  EXPECT_THAT(refusal({"--bogus"}).text, HasSubstr("--bogus"));
  EXPECT_THAT(refusal({"--insecure", "--listen", "nowhere"}).text,
              testing::StartsWith("sumcastd: --listen: 'nowhere' is not an address"));
  EXPECT_THAT(refusal({"--insecure", "--http", "1.2.3.4"}).text, HasSubstr("--http"));
  EXPECT_THAT(refusal({"--insecure", "--listen", "127.0.0.1:65535", "--threads", "2"}).text,
              HasSubstr("beyond 65535"));
  EXPECT_THAT(refusal({"--config", "/nonexistent.toml"}).text, HasSubstr("/nonexistent.toml"));
}

TEST(CommandLine, AllProblemsAreToldAtOnce) {
  const std::string text = refusal({"--insecure", "--loss", "3", "--threads", "many"}).text;
  EXPECT_THAT(text, HasSubstr("--loss"));
  EXPECT_THAT(text, HasSubstr("--threads"));
}

TEST(CommandLine, VersionAndHelpAreNoErrors) {
  EXPECT_EQ(refusal({"--version"}).code, 0);
  EXPECT_EQ(refusal({"--version"}).text, "sumcastd " SUMCAST_VERSION "\n");
  EXPECT_EQ(refusal({"--help"}).code, 0);
  EXPECT_THAT(refusal({"--help"}).text, HasSubstr("--listen"));
}

}  // namespace
}  // namespace sumcast::daemon

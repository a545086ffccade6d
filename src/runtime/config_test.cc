#include "runtime/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <set>
#include <sstream>

#include "runtime/config_keys.h"

namespace sumcast::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

EnvironmentLookup from(std::map<std::string, std::string> variables) {
  return [variables](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

std::vector<std::string> texts(const Problems& problems) {
  std::vector<std::string> all;
  for (const Error& problem : problems) {
    EXPECT_EQ(problem.code, ErrorCode::kInvalidArgument);
    all.push_back(problem.what);
  }
  return all;
}

std::vector<std::string> toml_problems(std::string_view text) {
  Settings settings;
  return texts(apply_toml(settings, text, "sumcast.toml"));
}

class ConfigFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "config_XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    path_ = directory_ + "/sumcast.toml";
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  void write(const std::string& text) { std::ofstream(path_) << text; }

  std::string directory_;
  std::string path_;
};

TEST_F(ConfigFileTest, LaterSourcesWin) {
  write("timeout = '5s'\nwindow = 64\nmtu = 9000\n");
  const auto loaded =
      load_settings(path_, from({{"SUMCAST_WINDOW", "32"}, {"SUMCAST_CONFIG", "/absent"}}));
  ASSERT_TRUE(loaded) << joined(loaded.error()).what;
  Settings settings = *loaded;
  ASSERT_TRUE(set_setting(settings, "mtu", "1400"));
  EXPECT_EQ(settings.timeout, Duration(5s));
  EXPECT_EQ(settings.window, 32u);
  EXPECT_EQ(settings.mtu, 1400u);
  EXPECT_EQ(settings.algorithm, "auto");
}

TEST_F(ConfigFileTest, TheVariableNamesTheFileAndWithoutEitherNoneIsRead) {
  write("insecure = true\n");
  const auto named = load_settings(std::nullopt, from({{"SUMCAST_CONFIG", path_}}));
  ASSERT_TRUE(named);
  EXPECT_TRUE(named->insecure);
  const auto none = load_settings(std::nullopt, from({}));
  ASSERT_TRUE(none);
  EXPECT_EQ(*none, Settings{});
}

TEST_F(ConfigFileTest, ProblemsOfFileAndEnvironmentComeTogether) {
  write("window = 70000\n\n[daemon]\nthread = 3\n");
  const auto loaded = load_settings(path_, from({{"SUMCAST_TIMEOUT", "30"}}));
  ASSERT_FALSE(loaded);
  EXPECT_THAT(
      texts(loaded.error()),
      ElementsAre(path_ + ":1: window: 70000 is out of range; choose from 0 to 65535",
                  path_ + ":4: unknown key 'daemon.thread'; the nearest is 'daemon.threads'",
                  HasSubstr("SUMCAST_TIMEOUT: '30' is not a duration")));
  EXPECT_THAT(joined(loaded.error()).what, HasSubstr("65535\n" + path_ + ":4:"));
}

TEST_F(ConfigFileTest, AMissingFileIsAProblemAndAnEmptyOneIsNot) {
  const auto missing = load_settings(path_, from({}));
  ASSERT_FALSE(missing);
  EXPECT_THAT(texts(missing.error()), ElementsAre("cannot read configuration file " + path_ +
                                                  ": No such file or directory"));
  const auto directory = load_settings(directory_, from({}));
  ASSERT_FALSE(directory);
  EXPECT_THAT(joined(directory.error()).what, HasSubstr("Is a directory"));
  write("");
  EXPECT_TRUE(load_settings(path_, from({})));
}

TEST(Config, TomlTakesEveryTypeOfValue) {
  Settings settings;
  EXPECT_THAT(texts(apply_toml(settings, R"(
aggregator = ["a:1", "[fe80::1]:2"]
socket_ifname = "^lo,docker"
insecure = true
window = 99
timeout = "1.5s"
[fault]
loss = 0.25
duplicate = 1
seed = 7
)",
                               "sumcast.toml")),
              IsEmpty());
  EXPECT_THAT(settings.aggregator, ElementsAre("a:1", "[fe80::1]:2"));
  EXPECT_EQ(settings.socket_ifname, "^lo,docker");
  EXPECT_TRUE(settings.insecure);
  EXPECT_EQ(settings.window, 99u);
  EXPECT_EQ(settings.timeout, Duration(1500ms));
  EXPECT_EQ(settings.fault_loss, 0.25);
  EXPECT_EQ(settings.fault_duplicate, 1.0);
  EXPECT_EQ(settings.fault_seed, 7u);
}

TEST(Config, UnknownKeysNameTheNearestOne) {
  EXPECT_THAT(toml_problems("threads = 2\nagregator = 'a:1'\nxyzzy = 1\n"),
              ElementsAre("sumcast.toml:1: unknown key 'threads'; the nearest is 'daemon.threads'",
                          "sumcast.toml:2: unknown key 'agregator'; the nearest is 'aggregator'",
                          "sumcast.toml:3: unknown key 'xyzzy'; docs/config.md lists all"));
  EXPECT_THAT(toml_problems("[deamon]\nthreads = 2\n"),
              ElementsAre(HasSubstr("sumcast.toml:1: unknown table 'deamon'")));
}

TEST(Config, ValuesOfTheWrongKindAreRefusedWithTheirLine) {
  EXPECT_THAT(
      toml_problems("key_file = 7\naggregator = [1]\ntimeout = 30\nwindow = 1.5\ndaemon = 1\n"),
      ElementsAre(HasSubstr(":1: key_file takes a text"), HasSubstr(":2: aggregator takes a list"),
                  HasSubstr(":3: timeout: '30' is not a duration"),
                  HasSubstr(":4: window: '1.5' is not a whole number"),
                  HasSubstr(":5: unknown key 'daemon'")));
  EXPECT_THAT(toml_problems("window = {a = 1}\n"), ElementsAre(HasSubstr(":1:")));
  EXPECT_THAT(toml_problems("window = [1]\n"), ElementsAre(HasSubstr(":1: window takes a count")));
}

TEST(Config, TextThatIsNoTomlIsReportedWithItsLine) {
  EXPECT_THAT(toml_problems("window = 1\nwindow 2\n"), ElementsAre(HasSubstr("sumcast.toml:2: ")));
  EXPECT_THAT(toml_problems("window = 1\nwindow = 2\n"),
              ElementsAre(HasSubstr("sumcast.toml:2: ")));
}

TEST(Config, TextsAreCheckedForForm) {
  Settings settings;
  for (const char* good : {"host:1", "10.0.0.1:65535", "[::1]:4700", "a:1, b:2", ""}) {
    EXPECT_TRUE(set_setting(settings, "aggregator", good)) << good;
  }
  for (const char* bad : {"host", ":1", "host:", "host:65536", "::1:4700", "host:x", "a b:1"}) {
    EXPECT_FALSE(set_setting(settings, "aggregator", bad)) << bad;
  }
  EXPECT_TRUE(set_setting(settings, "daemon.http", ""));
  EXPECT_FALSE(set_setting(settings, "daemon.listen", ""));
  EXPECT_FALSE(set_setting(settings, "socket_family", "IPv4"));
  EXPECT_FALSE(set_setting(settings, "algorithm", "tree"));
  EXPECT_FALSE(set_setting(settings, "debug.level", "LOUD"));
  EXPECT_FALSE(set_setting(settings, "debug.subsys", "NET,X"));
  EXPECT_FALSE(set_setting(settings, "fault.loss", "2"));
  EXPECT_EQ(set_setting(settings, "fault.los", "0").error().what,
            "unknown key 'fault.los'; the nearest is 'fault.loss'");
}

TEST(Config, AFailedSettingChangesNothing) {
  Settings settings;
  EXPECT_FALSE(set_setting(settings, "aggregator", "a:1,b"));
  EXPECT_FALSE(set_setting(settings, "window", "70000"));
  EXPECT_EQ(settings, Settings{});
}

TEST(Config, OtherLibrariesVariablesAreFallbacks) {
  const auto ifname = [](std::map<std::string, std::string> variables) {
    Settings settings;
    EXPECT_THAT(apply_environment(settings, from(std::move(variables))), IsEmpty());
    return settings.socket_ifname;
  };
  EXPECT_EQ(ifname({{"SUMCAST_SOCKET_IFNAME", "ib"}, {"NCCL_SOCKET_IFNAME", "eth"}}), "ib");
  EXPECT_EQ(ifname({{"NCCL_SOCKET_IFNAME", "eth"}, {"GLOO_SOCKET_IFNAME", "eth1"}}), "eth");
  EXPECT_EQ(ifname({{"GLOO_SOCKET_IFNAME", "eth1"}}), "=eth1");  // Gloo's names are exact.
  Settings settings;
  EXPECT_THAT(texts(apply_environment(settings, from({{"NCCL_SOCKET_FAMILY", "IPv4"}}))),
              ElementsAre(HasSubstr("NCCL_SOCKET_FAMILY: 'IPv4' is not known")));
}

TEST(Config, EveryKeyReadsItsOwnDefaultFromEverySource) {
  const Settings defaults;
  std::set<std::string_view> names, variables;
  for (const ConfigKey& key : config_keys()) {
    SCOPED_TRACE(key.name);
    EXPECT_TRUE(names.insert(key.name).second);
    EXPECT_TRUE(variables.insert(key.env).second);
    EXPECT_TRUE(std::string_view(key.env).starts_with("SUMCAST_"));
    EXPECT_EQ(key.help.back(), '.');
    if (std::holds_alternative<uint32_t Settings::*>(key.field)) {
      EXPECT_LE(key.most, std::numeric_limits<uint32_t>::max());
    }
    Settings settings;
    const Result<void> set = set_setting(settings, key.name, text_of(key, defaults));
    EXPECT_TRUE(set) << set.error().what;
    EXPECT_EQ(settings, defaults);
  }
}

TEST(Config, DefaultsAreValidAndContradictionsAreNamed) {
  EXPECT_THAT(validate(Settings{}), IsEmpty());
  Settings settings;
  settings.heartbeat_death = 300ms;
  settings.insecure = true;
  settings.key_file = "job.key";
  settings.timeout = Duration{0};
  EXPECT_THAT(texts(validate(settings)),
              ElementsAre(HasSubstr("timeout must be above 0"),
                          HasSubstr("heartbeat.death (300ms) must be at least twice"),
                          HasSubstr("insecure is set and key_file names job.key")));
}

TEST(Config, TheSampleSetsNothingAndUncommentedItSetsTheDefaults) {
  const std::string sample = config_sample_toml();
  Settings settings;
  EXPECT_THAT(texts(apply_toml(settings, sample, "sample")), IsEmpty());
  std::stringstream lines(sample);
  std::string bare;
  size_t keys = 0;
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 100u) << line;
    const bool is_key = line.size() > 1 && line[0] == '#' && line[1] != ' ';
    keys += is_key ? 1 : 0;
    bare += (is_key ? line.substr(1) : line) + "\n";
  }
  EXPECT_EQ(keys, config_keys().size());
  // Away from the defaults first, so that a key which sets nothing would show.
  ASSERT_TRUE(set_setting(settings, "aggregator", "a:1"));
  ASSERT_TRUE(set_setting(settings, "timeout", "1s"));
  ASSERT_TRUE(set_setting(settings, "fault.seed", "9"));
  ASSERT_TRUE(set_setting(settings, "debug.file", "x"));
  EXPECT_THAT(texts(apply_toml(settings, bare, "sample")), IsEmpty());
  EXPECT_EQ(settings, Settings{});
}

TEST(Config, TheDocumentHasARowForEachKey) {
  const std::string page = config_markdown();
  for (const ConfigKey& key : config_keys()) {
    EXPECT_THAT(page, HasSubstr("\n| `" + std::string(key.name) + "` | `" + key.env + "`"));
  }
}

}  // namespace
}  // namespace sumcast::runtime

#include "dataset/sample.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/prng.h"
#include "dataset/byte_source.h"
#include "dataset/formats.h"
#include "dataset/key_hash.h"

namespace sumcast::dataset {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

/// A file that goes with the test.
class TextFile {
 public:
  explicit TextFile(const std::string& text, bool compressed = false)
      : path_(testing::TempDir() + "sample_test_" + std::to_string(::getpid()) + "_" +
              std::to_string(++count_)) {
    if (compressed) {
      gzFile file = gzopen(path_.c_str(), "wb");
      gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
      gzclose(file);
    } else {
      std::ofstream(path_, std::ios::binary) << text;
    }
  }
  ~TextFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  static inline int count_ = 0;
  std::string path_;
};

struct Reading {
  std::vector<Sample> samples;
  std::vector<std::string> labels;
  std::string error;
};

Reading read_all(const std::string& path, std::string_view format = "auto") {
  Reading reading;
  auto reader = open_samples(path, format);
  if (!reader) {
    reading.error = reader.error().what;
    return reading;
  }
  Sample sample;
  for (;;) {
    const auto more = (*reader)->next(sample);
    if (!more) {
      reading.error = more.error().what;
      break;
    }
    if (!*more) break;
    reading.samples.push_back(sample);
  }
  reading.labels = (*reader)->label_names();
  return reading;
}

std::string criteo_line(const std::string& label, const std::string& first_integer,
                        const std::string& first_category) {
  std::string line = label + "\t" + first_integer;
  for (int i = 1; i < 13; ++i) line += "\t";
  line += "\t" + first_category;
  for (int i = 1; i < 26; ++i) line += "\t68fd1e64";
  return line + "\n";
}

TEST(Libsvm, GivesLabelsAndPairs) {
  const TextFile file("+1 3:1 11:0.5\r\n\n# nothing but a comment\n-1 0:2e-3 # more\n2\n");
  const Reading reading = read_all(file.path());
  EXPECT_EQ(reading.error, "");
  ASSERT_EQ(reading.samples.size(), 3u);
  EXPECT_EQ(reading.samples[0].label, 1.0f);
  EXPECT_THAT(reading.samples[0].features,
              ElementsAre(Feature{field_key(0, 3), 1.0f, 3}, Feature{field_key(0, 11), 0.5f, 11}));
  EXPECT_EQ(reading.samples[1].label, -1.0f);
  EXPECT_THAT(reading.samples[1].features, ElementsAre(Feature{field_key(0, 0), 2e-3f}));
  EXPECT_EQ(reading.samples[2].label, 2.0f);
  EXPECT_TRUE(reading.samples[2].features.empty());
  EXPECT_NE(reading.samples[0].group, reading.samples[1].group);
}

TEST(Libsvm, NamesFileLineAndWhatIsWrong) {
  const auto error_of = [](const std::string& line) {
    const TextFile file("1 1:1\n" + line + "\n1 2:2\n");
    const Reading reading = read_all(file.path(), "libsvm");
    EXPECT_EQ(reading.samples.size(), 1u) << line;
    EXPECT_THAT(reading.error, StartsWith(file.path() + ":2: "));
    return reading.error;
  };
  EXPECT_THAT(error_of("one 1:1"), HasSubstr("the label 'one' is no number"));
  EXPECT_THAT(error_of("1 3:1 2:1"), HasSubstr("index 2 comes after 3; indices must ascend"));
  EXPECT_THAT(error_of("1 3:1 3:1"), HasSubstr("index 3 comes after 3"));
  EXPECT_THAT(error_of("1 3"), HasSubstr("'3' is no index:value"));
  EXPECT_THAT(error_of("1 3:"), HasSubstr("'3:'"));
  EXPECT_THAT(error_of("1 -3:1"), HasSubstr("'-3:1'"));
  EXPECT_THAT(error_of("1 3:nan"), HasSubstr("'3:nan'"));
  EXPECT_THAT(error_of("1 3:1e99"), HasSubstr("'3:1e99'"));
  EXPECT_THAT(error_of("nan 3:1"), HasSubstr("'nan'"));
}

TEST(Libsvm, AMalformedLineLeavesTheSampleAsItWas) {
  const TextFile file("1 1:1 2:2\n1 5:1 4:1\n");
  auto reader = open_samples(file.path());
  ASSERT_TRUE(reader);
  Sample sample;
  ASSERT_TRUE((*reader)->next(sample));
  const auto before = sample.features;
  EXPECT_FALSE((*reader)->next(sample));
  EXPECT_EQ(sample.features, before);
}

TEST(Criteo, GivesIntegersAndCategories) {
  const TextFile file(criteo_line("1", "-2", "05db9164") + criteo_line("0", "", ""), true);
  const Reading reading = read_all(file.path());
  EXPECT_EQ(reading.error, "");
  ASSERT_EQ(reading.samples.size(), 2u);
  EXPECT_EQ(reading.samples[0].label, 1.0f);
  EXPECT_EQ(reading.samples[0].features.size(), 27u);
  EXPECT_EQ(reading.samples[0].features[0], (Feature{field_key(1, 0), -std::log1p(2.0f), 1}));
  EXPECT_EQ(reading.samples[0].features[1],
            (Feature{field_key(14, hash_bytes("05db9164")), 1.0f, 14}));
  EXPECT_EQ(reading.samples[1].features.size(), 25u);  // Empty columns give none.
  std::set<uint64_t> keys;  // The same category in 25 columns is 25 keys.
  for (const Feature& feature : reading.samples[1].features) keys.insert(feature.key);
  EXPECT_EQ(keys.size(), 25u);
}

TEST(Criteo, NamesFileLineAndWhatIsWrong) {
  const TextFile short_line("1\t2\n"), label(criteo_line("2", "", "")),
      integer(criteo_line("1", "2.5", "")), category(criteo_line("1", "", "no hex"));
  EXPECT_THAT(read_all(short_line.path(), "criteo").error, HasSubstr(":1: 2 columns between tabs"));
  EXPECT_THAT(read_all(label.path()).error, HasSubstr(":1: the label '2' is not 0 or 1"));
  EXPECT_THAT(read_all(integer.path()).error, HasSubstr(":1: column 2, '2.5', is no integer"));
  EXPECT_THAT(read_all(category.path()).error, HasSubstr("column 15, 'no hex', is no hexadecimal"));
}

TEST(Avazu, UsesTheHourOfTheDayAndNotTheId) {
  const TextFile file(
      "id,click,hour,C1,banner_pos\n"
      "1000009418151094273,0,14102103,1005,0\n"
      "17,1,14103103,1005,1\n");
  const Reading reading = read_all(file.path());
  EXPECT_EQ(reading.error, "");
  ASSERT_EQ(reading.samples.size(), 2u);
  EXPECT_EQ(reading.samples[0].label, 0.0f);
  EXPECT_THAT(reading.samples[0].features,
              ElementsAre(Feature{field_key(2, hash_bytes("03")), 1.0f, 2},
                          Feature{field_key(3, hash_bytes("1005")), 1.0f, 3},
                          Feature{field_key(4, hash_bytes("0")), 1.0f, 4}));
  EXPECT_EQ(reading.samples[1].label, 1.0f);
  EXPECT_EQ(reading.samples[1].features[0], reading.samples[0].features[0]);
}

TEST(Avazu, NamesFileLineAndWhatIsWrong) {
  const std::string header = "id,click,hour,C1\n";
  const TextFile columns(header + "1,0,14102103\n"), click(header + "1,yes,14102103,5\n"),
      hour(header + "1,0,2014-10,5\n"), late(header + "1,0,14102124,5\n"),
      headless("1,0,14102103,5\n");
  EXPECT_THAT(read_all(columns.path()).error, HasSubstr(":2: 3 columns between commas"));
  EXPECT_THAT(read_all(click.path()).error, HasSubstr(":2: the click 'yes' is not 0 or 1"));
  EXPECT_THAT(read_all(hour.path()).error, HasSubstr(":2: the hour '2014-10' is not YYMMDDHH"));
  EXPECT_THAT(read_all(late.path()).error, HasSubstr(":2: the hour '14102124' is not YYMMDDHH"));
  EXPECT_THAT(read_all(headless.path(), "avazu").error, HasSubstr(":1: no header"));
}

TEST(Text, CountsWordsAndPairs) {
  const TextFile file("Real-time GAMES: real games\n\n...\nÄhre\n");
  const Reading reading = read_all(file.path());
  ASSERT_EQ(reading.samples.size(), 2u);
  // real 2, time 1, games 2; real-time, time-games, games-real, real-games.
  EXPECT_EQ(reading.samples[0].features.size(), 7u);
  float words = 0;
  for (const Feature& feature : reading.samples[0].features) {
    words += feature.value;
    if (feature.key == hash_bytes("real")) {
      EXPECT_EQ(feature.value, 2.0f);
    }
  }
  EXPECT_EQ(words, 9.0f);
  EXPECT_THAT(reading.samples[1].features, ElementsAre(Feature{hash_bytes("Ähre"), 1.0f}));
}

TEST(Packages, LabelIsTheSectionAndGroupTheSource) {
  const TextFile file(
      "Package: zoom-player\nSource: zoom (1.2)\nSection: non-free/games\n"
      "Description: player of games\n of another line\nTag: a,\n b\n\n"
      "Package: libzoom\nSource: zoom\nSection: libs\nDescription: player of games\n\n\n"
      "Package: nothing\n\n"
      "Package: chess\nSection: games\nDescription: board");
  const Reading reading = read_all(file.path());
  EXPECT_EQ(reading.error, "");
  ASSERT_EQ(reading.samples.size(), 3u);
  EXPECT_THAT(reading.labels, ElementsAre("games", "libs"));
  EXPECT_EQ(reading.samples[0].label, 0.0f);
  EXPECT_EQ(reading.samples[1].label, 1.0f);
  EXPECT_EQ(reading.samples[2].label, 0.0f);
  EXPECT_EQ(reading.samples[0].group, reading.samples[1].group);
  EXPECT_NE(reading.samples[0].group, reading.samples[2].group);
  EXPECT_EQ(reading.samples[0].features, reading.samples[1].features);
  EXPECT_EQ(reading.samples[0].features.size(), 5u);
  const TextFile broken("Package: a\nno field\n");
  EXPECT_THAT(read_all(broken.path()).error, HasSubstr(":2: neither 'Field: value'"));
}

TEST(OpenSamples, SaysWhatIsWrong) {
  EXPECT_THAT(read_all("/nowhere/a9a").error, HasSubstr("/nowhere/a9a: No such file"));
  EXPECT_THAT(read_all("/nowhere/a9a", "parquet").error, HasSubstr("no format 'parquet': one of"));
  EXPECT_THAT(read_all("debian-packages", "criteo").error, HasSubstr("not in the format"));
  const TextFile empty("");
  EXPECT_THAT(read_all(empty.path()).error, HasSubstr("is empty"));
  EXPECT_THAT(read_all(testing::TempDir()).error, HasSubstr("Is a directory"));
}

TEST(OpenSamples, DamagedFilesAreErrorsOrSamplesNeverMore) {
  const std::vector<std::pair<std::string, std::string>> sound = {
      {"libsvm", "1 1:0.5 7:2e-3\n-1 3:1\n"},
      {"criteo", criteo_line("1", "-2", "05db9164")},
      {"avazu", "id,click,hour,C1\n17,1,14103103,1005\n"},
      {"text", "words in a line\n"},
      {"packages", "Package: a\nSource: b (1)\nSection: libs\nDescription: some words\n\n"}};
  Prng prng(1);
  int errors = 0, samples = 0;
  for (const auto& [format, text] : sound) {
    for (int trial = 0; trial < 200; ++trial) {
      std::string damaged = text + text;
      for (uint64_t hits = 1 + prng.below(4); hits > 0; --hits) {
        const size_t place = prng.below(damaged.size());
        switch (prng.below(3)) {
          case 0:
            damaged[place] = static_cast<char>(prng.below(256));
            break;
          case 1:
            damaged.erase(place, 1 + prng.below(8));
            break;
          default:
            damaged.insert(place, 1 + prng.below(3), "\t,: \n9"[prng.below(6)]);
        }
      }
      const TextFile file(damaged);
      const Reading reading = read_all(file.path(), format);
      errors += reading.error.empty() ? 0 : 1;
      if (!reading.error.empty()) {
        EXPECT_THAT(reading.error, StartsWith(file.path()));
      }
      for (const Sample& sample : reading.samples) {
        ++samples;
        EXPECT_TRUE(std::isfinite(sample.label));
        std::set<uint64_t> keys;
        for (const Feature& feature : sample.features) {
          EXPECT_TRUE(std::isfinite(feature.value));
          EXPECT_TRUE(keys.insert(feature.key).second);
        }
      }
    }
  }
  EXPECT_GT(errors, 200);
  EXPECT_GT(samples, 200);
}

TEST(OpenSamples, ACompressedFileThatWasCutShortIsAnError) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += "1 " + std::to_string(i * 7919 % 100'003) + ":1\n";
  const TextFile file(text, true);
  EXPECT_EQ(read_all(file.path(), "libsvm").samples.size(), 5000u);
  std::filesystem::resize_file(file.path(), std::filesystem::file_size(file.path()) / 2);
  const Reading reading = read_all(file.path(), "libsvm");
  EXPECT_THAT(reading.error, StartsWith(file.path() + ": "));
}

TEST(LineReader, KeepsLinesWholeAcrossReads) {
  std::string text;
  std::vector<std::string> lines;
  for (size_t i = 0; i < 300; ++i) {
    lines.push_back(std::string(i * 37 % 9001, static_cast<char>('a' + i % 26)));
    text += lines.back() + "\n";
  }
  lines.push_back("the last, without an end");
  const TextFile file(text + lines.back());
  auto source = open_file(file.path());
  ASSERT_TRUE(source);
  LineReader reader(file.path(), std::move(*source));
  std::string_view line;
  for (const std::string& expected : lines) {
    ASSERT_TRUE(reader.next(line).value());
    ASSERT_EQ(line, expected);
  }
  EXPECT_FALSE(reader.next(line).value());
  EXPECT_EQ(reader.line_number(), lines.size());
}

TEST(CommandSource, ReadsWhatAProgramPrints) {
  auto source = open_command({"sh", "-c", "echo one; echo two"});
  ASSERT_TRUE(source);
  LineReader reader("sh", std::move(*source));
  std::string_view line;
  ASSERT_TRUE(reader.next(line).value());
  EXPECT_EQ(line, "one");
  ASSERT_TRUE(reader.next(line).value());
  EXPECT_EQ(line, "two");
  EXPECT_FALSE(reader.next(line).value());
}

TEST(CommandSource, FailuresOfTheProgramAreErrors) {
  EXPECT_THAT(open_command({"/nowhere/program"}).error().what,
              HasSubstr("cannot run /nowhere/program: No such file"));
  std::array<char, 16> buffer{};
  auto failing = open_command({"sh", "-c", "exit 3"});
  ASSERT_TRUE(failing);
  EXPECT_THAT((*failing)->read(buffer).error().what, HasSubstr("ended with exit code 3"));
  auto silent = open_command({"sleep", "600"}, 50ms);
  ASSERT_TRUE(silent);
  const auto timeout = (*silent)->read(buffer);
  ASSERT_FALSE(timeout);
  EXPECT_EQ(timeout.error().code, ErrorCode::kTimeout);
}

TEST(DebianPackages, OfThisMachineHaveManySections) {
  const Reading reading = read_all("debian-packages");
  if (!reading.error.empty() || reading.samples.size() < 1000) {
    GTEST_SKIP() << "apt knows too few packages here: " << reading.error;
  }
  EXPECT_GT(reading.labels.size(), 20u);
  EXPECT_LT(reading.labels.size(), 200u);
}

}  // namespace
}  // namespace sumcast::dataset

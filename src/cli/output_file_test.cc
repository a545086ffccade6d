#include "cli/output_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

namespace sumcast::cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class OutputFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "output_XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  void TearDown() override { fs::remove_all(directory_); }
  std::string file(const std::string& name) const { return directory_ + "/" + name; }
  size_t files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(directory_), {}));
  }
  static std::string contents(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string directory_;
};

TEST_F(OutputFile, IsReplacedWhole) {
  std::ofstream(file("report")) << "a long one of an earlier run";
  ASSERT_TRUE(write_output_file(file("report"), "new"));
  EXPECT_EQ(contents(file("report")), "new");
  EXPECT_EQ(files(), 1u);
}

TEST_F(OutputFile, WhatALinkPointsToIsWrittenAndTheLinkStays) {
  std::ofstream(file("kept")) << "old";
  fs::create_symlink(file("kept"), file("link"));
  ASSERT_TRUE(write_output_file(file("link"), "new"));
  EXPECT_TRUE(fs::is_symlink(file("link")));
  EXPECT_EQ(contents(file("kept")), "new");
}

TEST_F(OutputFile, APipeIsWrittenIntoAndStaysAPipe) {
  ASSERT_EQ(::mkfifo(file("pipe").c_str(), 0600), 0);
  std::string got;
  std::thread reader([&] { got = contents(file("pipe")); });
  EXPECT_TRUE(write_output_file(file("pipe"), "text"));
  reader.join();
  EXPECT_EQ(got, "text");
  EXPECT_TRUE(fs::is_fifo(file("pipe")));
}

TEST_F(OutputFile, AFullDiskIsAnErrorAndADeviceStaysADevice) {
  const auto full = write_output_file("/dev/full", "text");
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().what, "cannot write /dev/full: No space left on device");
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
  EXPECT_TRUE(write_output_file("/dev/null", "text"));
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(OutputFile, AMissingDirectoryIsNamedBeforeAndAfter) {
  EXPECT_THAT(why_not_writable(file("absent/report")), HasSubstr("there is no directory"));
  EXPECT_EQ(why_not_writable(directory_), "that is a directory");
  EXPECT_EQ(why_not_writable(""), "the name is empty");
  EXPECT_EQ(why_not_writable(file("report")), "");
  const auto written = write_output_file(file("absent/report"), "text");
  ASSERT_FALSE(written);
  EXPECT_THAT(written.error().what, HasSubstr("No such file or directory"));
  EXPECT_EQ(files(), 0u);
}

}  // namespace
}  // namespace sumcast::cli

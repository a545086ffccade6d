// Every transcript of this directory must read as it does when it is run again.
// `transcript_test --rewrite` writes the present answers into the files: review the diff.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "transcript.h"

namespace sumcast::transcript {
namespace {

bool rewrite = false;

std::vector<std::string> transcripts() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(SUMCAST_TRANSCRIPTS)) {
    if (entry.path().extension() != ".txt" || entry.path().stem() == "CMakeLists") continue;
    names.push_back(entry.path().stem().string());
  }
  std::ranges::sort(names);
  return names;
}

class Transcripts : public testing::TestWithParam<std::string> {};

TEST_P(Transcripts, ReadAsBefore) {
  const auto path = std::filesystem::path(SUMCAST_TRANSCRIPTS) / (GetParam() + ".txt");
  std::stringstream before;
  before << std::ifstream(path).rdbuf();
  const std::string after = Interpreter().run(before.str());
  ASSERT_EQ(after.find("    error:"), std::string::npos) << after;
  if (rewrite) {
    std::ofstream(path) << after;
  } else {
    EXPECT_EQ(before.str(), after) << "if the change is wanted: transcript_test --rewrite";
  }
}

INSTANTIATE_TEST_SUITE_P(All, Transcripts, testing::ValuesIn(transcripts()),
                         [](const auto& made) { return made.param; });

TEST(Interpreter, NamesWhatItDoesNotUnderstand) {
  const std::string out = Interpreter().run("pool members=2 slots=1 colour=3\nprobe slot=x\n");
  EXPECT_NE(out.find("error: unknown colour=3"), std::string::npos) << out;
  EXPECT_NE(out.find("error: not a number of that size: slot=x"), std::string::npos) << out;
}

}  // namespace

void set_rewrite(bool value) { rewrite = value; }

}  // namespace sumcast::transcript

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) != "--rewrite") {
      std::fprintf(stderr, "unknown argument %s; known: --rewrite\n", argv[i]);
      return 2;
    }
    sumcast::transcript::set_rewrite(true);
  }
  return RUN_ALL_TESTS();
}

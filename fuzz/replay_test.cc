// The fuzz targets without a fuzzer: the stored corpus, and inputs from a generator, so that an
// ordinary test run exercises them.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <ostream>
#include <string>
#include <vector>

#include "base/prng.h"
#include "fuzz/targets.h"

namespace sumcast::fuzz {

/// For gtest's messages.
static void PrintTo(const Target& target, std::ostream* out) { *out << target.name; }

namespace {

class Targets : public testing::TestWithParam<Target> {};

TEST_P(Targets, AcceptTheStoredCorpus) {
  const auto folder = std::filesystem::path(SUMCAST_FUZZ_CORPUS) / GetParam().name;
  ASSERT_TRUE(std::filesystem::is_directory(folder)) << folder;
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(file), {}};
    GetParam().run(bytes);
    ++files;
  }
  EXPECT_GT(files, 0u);
}

TEST_P(Targets, AcceptAnyBytes) {
  Prng prng(20221);
  std::vector<uint8_t> bytes;
  for (int i = 0; i < 20'000; ++i) {
    bytes.resize(prng.below(400));
    // Runs of small numbers reach further into a state machine than noise does.
    const uint64_t bound = prng.chance(0.5) ? 256 : 1 + prng.below(192);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(prng.below(bound));
    GetParam().run(bytes);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Targets, testing::ValuesIn(kTargets),
                         [](const auto& made) { return std::string(made.param.name); });

}  // namespace
}  // namespace sumcast::fuzz

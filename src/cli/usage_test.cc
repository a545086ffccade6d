#include "cli/usage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace sumcast::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

/// A program with a command `bench` that has a command `torch` and one that people do not see.
struct Program {
  Program() {
    app.require_subcommand(1);
    CLI::App* bench = app.add_subcommand("bench", "");
    bench->add_option("--workers", workers);
    bench->add_option("--seed", seed);
    bench->add_option("--loss", loss);
    bench->add_option("--images", images);
    bench->add_subcommand("torch", "")->add_option("--steps", steps);
    app.add_subcommand("keygen", "")->add_option("FILE", path)->required();
    app.add_subcommand("bench-worker", "")->group("");
    refuse_signs(app);
  }
  std::string problem_with(std::vector<const char*> words) {
    words.insert(words.begin(), "sumcast");
    const int argc = static_cast<int>(words.size());
    try {
      app.parse(argc, words.data());
    } catch (const CLI::ParseError& error) {
      return usage_problem(app, argc, words.data(), error);
    }
    return "none";
  }

  CLI::App app{"", "sumcast"};
  uint32_t workers = 0;
  uint64_t seed = 0;
  double loss = 0;
  int images = 0;
  uint64_t steps = 0;
  std::string path;
};

TEST(Usage, AWordThatIsNoCommandIsNamedWithThoseThatAre) {
  EXPECT_EQ(Program().problem_with({"bnech"}),
            "sumcast: there is no command 'bnech'; choose from bench, keygen; see sumcast --help");
  EXPECT_EQ(Program().problem_with({}),
            "sumcast: name a command: bench, keygen; see sumcast --help");
  EXPECT_THAT(Program().problem_with({"--bogus", "bench"}), HasSubstr("there is no flag --bogus"));
}

TEST(Usage, AProblemNamesItsCommandAndThatCommandsHelp) {
  EXPECT_EQ(Program().problem_with({"bench", "--bogus"}),
            "sumcast bench: it takes no '--bogus'; see sumcast bench --help");
  EXPECT_EQ(Program().problem_with({"bench", "torch", "extra"}),
            "sumcast bench torch: it takes no 'extra'; see sumcast bench torch --help");
  EXPECT_EQ(Program().problem_with({"keygen"}),
            "sumcast keygen: FILE is required; see sumcast keygen --help");
}

TEST(Usage, AValueOfTheWrongKindSaysWhatTheFlagTakes) {
  EXPECT_THAT(Program().problem_with({"bench", "--workers", "x"}),
              StartsWith("sumcast bench: --workers: 'x' is not a whole number from 0 up"));
  EXPECT_THAT(Program().problem_with({"bench", "--images", "x"}),
              HasSubstr("--images: 'x' is not a whole number,"));
  EXPECT_THAT(Program().problem_with({"bench", "--loss", "much"}),
              HasSubstr("--loss: 'much' is not a number"));
}

TEST(Usage, ANegativeCountIsRefusedWhateverItsSize) {
  for (const char* flag : {"--workers", "--seed"}) {
    EXPECT_THAT(Program().problem_with({"bench", flag, "-1"}),
                AllOf(HasSubstr(flag), HasSubstr("'-1' is not a whole number from 0 up")));
  }
  EXPECT_THAT(Program().problem_with({"bench", "torch", "--steps", "-1"}), HasSubstr("--steps"));
  Program program;
  EXPECT_EQ(program.problem_with({"bench", "--seed", "7", "--images", "-3"}), "none");
  EXPECT_EQ(program.seed, 7u);
  EXPECT_EQ(program.images, -3);
}

/// The exit code and standard error of the program itself, its output going to `output`.
std::pair<int, std::string> run_program(const std::string& words, const std::string& output) {
  const auto program = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "sumcast";
  const std::string line = program.string() + " " + words + " 2>&1 >" + output;
  FILE* pipe = ::popen(line.c_str(), "r");
  std::string errors;
  std::array<char, 256> buffer{};
  while (std::fgets(buffer.data(), buffer.size(), pipe) != nullptr) errors += buffer.data();
  const int status = ::pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, errors};
}

TEST(Usage, EveryCommandHasHelpWithExamplesOfItsOwn) {
  for (const std::string name :
       {"demo", "bench", "plan", "status", "hot", "keygen", "train", "bench kernel", "bench torch",
        "bench sparse", "bench pipeline", "bench convergence"}) {
    const std::string page = testing::TempDir() + "help_" + std::to_string(::getpid());
    EXPECT_EQ(run_program(name + " --help", page).first, 0) << name;
    std::ifstream file(page);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    EXPECT_THAT(text, HasSubstr("\n  sumcast " + name)) << name;
    std::filesystem::remove(page);
  }
}

TEST(Usage, FilesThatCannotBeReadOrWrittenAreBadWords) {
  const std::string plan = "plan --workers 4 --bandwidth 1gbit ";
  for (const std::string& words :
       {std::string("train --data /absent/file"), std::string("hot /absent/file"),
        std::string("demo --data /absent"), std::string("bench convergence --data /absent"),
        std::string("bench pipeline --results /absent/file"),
        std::string("bench sparse --skew text --text /absent/file"),
        std::string("status --http nonsense"), plan + "--trace /absent/file",
        plan + "--model-bytes 10MB --step-time 100ms --write-perfetto /absent/file"}) {
    const auto [code, errors] = run_program(words, "/dev/null");
    EXPECT_EQ(code, 2) << words;
    EXPECT_EQ(std::ranges::count(errors, '\n'), 1) << words << ": " << errors;
  }
}

TEST(Usage, OutputThatAFullDiskDoesNotTakeIsAnError) {
  const std::string plan =
      "plan --workers 4 --bandwidth 1gbit --model-bytes 10MB --step-time 100ms";
  for (const std::string& words : {std::string("--help"), std::string("bench --help"), plan}) {
    EXPECT_EQ(run_program(words, "/dev/null"), std::pair(0, std::string())) << words;
    EXPECT_EQ(run_program(words, "/dev/full"),
              std::pair(1, std::string("sumcast: cannot write to standard output: No space left "
                                       "on device\n")))
        << words;
  }
}

}  // namespace
}  // namespace sumcast::cli

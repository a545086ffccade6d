#include "manual/manual_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace sumcast::manual {
namespace {

using testing::HasSubstr;
using testing::Not;

/// A tool with a command under a command, and with everything that could upset roff or bash.
class Tool {
 public:
  Tool() {
    app.set_version_flag("--version", "1");
    CLI::App* const bench = app.add_subcommand("bench", "Times things");
    bench->add_option("-b,--min-bytes", text_, "Smallest, such as 8")->default_str("4K");
    bench->add_option("--range", number_, "How many")->check(CLI::Range(1, 64));
    bench->add_option("--at", text_, "Where")->type_name("ADDR:PORT");
    bench->add_flag("--json", flag_, ".starts like a macro, has \\ and \"quotes\"");
    bench->footer(
        "Without --range: all.\nExamples:\n  tool bench -b 8\n  tool bench \\\n    --json");
    CLI::App* const kernel = bench->add_subcommand("kernel", "The addition itself");
    kernel->add_option("file", text_, "What to read")->required();
    app.add_subcommand("worker", "Nobody's business")->group("");
    app.add_option("--inner", text_, "Nobody's business either")->group("");
  }
  CLI::App app{"Does it all.", "tool"};

 private:
  std::string text_;
  int number_ = 0;
  bool flag_ = false;
};

PageFacts facts() { return {1, "0.1.0", "It does.\n\nIt does well.", "0 if it did.", "other(8)"}; }

TEST(ManualPage, TellsCommandsWithTheirOptionsAndExamples) {
  const Tool tool;
  const std::string page = manual_page(tool.app, facts());
  EXPECT_THAT(page, HasSubstr(".TH \"TOOL\" 1 \"\" \"tool 0.1.0\" \"User Commands\"\n"));
  EXPECT_THAT(page, HasSubstr(".SH NAME\ntool \\- Does it all\n"));
  EXPECT_THAT(page, HasSubstr(".SS \"tool bench\"\nTimes things.\n"));
  EXPECT_THAT(page, HasSubstr(".TP\n\\fB\\-b\\fR, \\fB\\-\\-min\\-bytes\\fR \\fITEXT\\fR\n"
                              "Smallest, such as 8 (default: 4K).\n"));
  EXPECT_THAT(page, HasSubstr("\\fB\\-\\-range\\fR \\fIINT\\fR\nHow many.\n"));
  EXPECT_THAT(page, HasSubstr("\\fB\\-\\-at\\fR \\fIADDR:PORT\\fR\nWhere.\n"));
  EXPECT_THAT(page, HasSubstr("\n\\&.starts like a macro, has \\e and \"quotes\".\n"));
  EXPECT_THAT(page, HasSubstr(".SS \"tool bench kernel\"\nThe addition itself.\n"
                              ".TP\n\\fIfile\\fR\nWhat to read.\n"));
  EXPECT_THAT(page, HasSubstr("Without \\-\\-range: all.\n.PP\nExamples:\n.PP\n.nf\n"
                              "  tool bench \\-b 8\n  tool bench \\e\n    \\-\\-json\n.fi\n"));
  EXPECT_THAT(page, HasSubstr("\\fBSUMCAST_KEY_FILE\\fR\n"));
  EXPECT_THAT(page, HasSubstr(".SH \"EXIT STATUS\"\n0 if it did.\n"));
}

TEST(ManualPage, LeavesOutWhatIsHidden) {
  const Tool tool;
  const std::string page = manual_page(tool.app, facts());
  EXPECT_THAT(page, Not(HasSubstr("business")));
  EXPECT_THAT(bash_completion(tool.app), Not(HasSubstr("worker")));
  EXPECT_THAT(bash_completion(tool.app), Not(HasSubstr("--inner")));
}

/// A file that goes with the test.
class Scratch {
 public:
  explicit Scratch(const std::string& text) : path_(testing::TempDir() + "manual_XXXXXX") {
    ::close(::mkstemp(path_.data()));
    std::ofstream(path_) << text;
  }
  ~Scratch() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }
  std::string read() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  std::string path_;
};

TEST(ManualPage, RendersWithoutWarnings) {
  if (std::system("command -v man groff > /dev/null") != 0) GTEST_SKIP() << "no man here";
  const Tool tool;
  const Scratch page(manual_page(tool.app, facts())), output("");
  const std::string command = "LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 " +
                              page.path() + " > /dev/null 2> " + output.path();
  EXPECT_EQ(std::system(command.c_str()), 0);
  EXPECT_EQ(output.read(), "");
}

/// What bash offers after these words.
std::string offered(const std::string& script, const std::string& words) {
  const Scratch file(script), output("");
  const std::string program = "source " + file.path() + "; COMP_WORDS=(" + words +
                              "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _tool_words; "
                              "echo \"${COMPREPLY[*]}\"";
  const std::string command = "bash -c '" + program + "' > " + output.path() + " 2>&1";
  EXPECT_EQ(std::system(command.c_str()), 0);
  return output.read();
}

TEST(BashCompletion, OffersCommandsAndTheirFlags) {
  if (std::system("command -v bash > /dev/null") != 0) GTEST_SKIP() << "no bash here";
  const Tool tool;
  const std::string script = bash_completion(tool.app);
  EXPECT_EQ(offered(script, "tool \"\""), "bench --help -h --version\n");
  EXPECT_EQ(offered(script, "tool b"), "bench\n");
  EXPECT_EQ(offered(script, "tool bench --j"), "--json\n");
  EXPECT_EQ(offered(script, "tool bench --json ke"), "kernel\n");
  EXPECT_EQ(offered(script, "tool bench kernel --"), "--help\n");
  EXPECT_EQ(offered(script, "tool bench kernel fi"), "\n");  // Then bash offers file names.
}

}  // namespace
}  // namespace sumcast::manual

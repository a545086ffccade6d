#include "cli/result_lines.h"

#include <gtest/gtest.h>

#include "cli/bench_site.h"

namespace sumcast::cli {
namespace {

Result<int> number(const std::string& line) {
  if (line.empty() || line.find_first_not_of("0123456789") != std::string::npos) {
    return fail(ErrorCode::kInvalidArgument, "no number");
  }
  return std::stoi(line);
}

TEST(ResultLines, ALineCutOffIsTakenAwayAndOthersFollow) {
  auto scratch = ScratchDirectory::create();
  ASSERT_TRUE(scratch.has_value());
  const std::string path = scratch->path() + "/results";
  EXPECT_TRUE(read_result_lines<int>(path, number)->empty()) << "no file yet";
  std::ofstream(path) << "1\n2\n3{cut";
  EXPECT_EQ(*read_result_lines<int>(path, number), (std::vector<int>{1, 2}));
  std::ofstream(path, std::ios::app) << "4\n";
  EXPECT_EQ(*read_result_lines<int>(path, number), (std::vector<int>{1, 2, 4}));
  std::ofstream(path, std::ios::app) << "x\n5\n";
  const auto wrong = read_result_lines<int>(path, number);
  ASSERT_FALSE(wrong.has_value());
  EXPECT_NE(wrong.error().what.find("results:4"), std::string::npos) << wrong.error().what;
}

}  // namespace
}  // namespace sumcast::cli

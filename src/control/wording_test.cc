#include "control/wording.h"

#include <gtest/gtest.h>

#include <vector>

namespace sumcast::control {
namespace {

std::string text_of(const std::vector<int>& values) {
  std::vector<Rank> ranks;
  for (const int value : values) ranks.push_back(Rank(static_cast<uint16_t>(value)));
  return ranks_text(ranks);
}

TEST(Wording, ListsRanksAsAPersonWould) {
  EXPECT_EQ(text_of({5}), "rank 5");
  EXPECT_EQ(text_of({5, 6}), "ranks 5 and 6");
  EXPECT_EQ(text_of({0, 2, 3}), "ranks 0, 2 and 3");
  EXPECT_EQ(text_of({0, 1, 2}), "ranks 0-2");
  EXPECT_EQ(text_of({0, 2, 3, 4, 5, 7}), "ranks 0, 2-5 and 7");
}

TEST(Wording, DrivesNoTerminal) {
  EXPECT_EQ(printable("a\x1b[2Jb\nc\x7f"), "a [2Jb c ");
  EXPECT_EQ(printable("\xC2\x9B"
                      "31m"),
            "  31m")
      << "U+009B begins a command, too";
  EXPECT_EQ(printable("Z\xC3\xBCrich \xC2\xA9"), "Z\xC3\xBCrich \xC2\xA9");
}

TEST(Wording, SaysHowLong) {
  EXPECT_EQ(span_text(-1ms), "0 ms");
  EXPECT_EQ(span_text(35ms), "35 ms");
  EXPECT_EQ(span_text(999'600us), "1.0 s");
  EXPECT_EQ(span_text(5200ms), "5.2 s");
}

TEST(Wording, NamesAnOperation) {
  EXPECT_EQ(operation_text("all_reduce f32[9] sum", 12, GroupId(0)), "all_reduce #12 on group 0");
  EXPECT_EQ(operation_text("barrier", 1, GroupId(4)), "barrier #1 on group 4");
  EXPECT_EQ(operation_text("", 1, GroupId(4)), "operation #1 on group 4");
}

}  // namespace
}  // namespace sumcast::control

#include "report/table.h"

#include <gtest/gtest.h>

namespace sumcast::report {
namespace {

TEST(Table, AlignsWordsLeftAndNumbersRight) {
  Table table({{"method", Align::kLeft}, {"step"}, {"note", Align::kLeft}});
  table.add_row({"in-network", "98 ms", "daemon"});
  table.add_row({"ring", "139.8 ms", ""});
  EXPECT_EQ(table.to_string(),
            "method          step  note\n"
            "----------  --------  ------\n"
            "in-network     98 ms  daemon\n"
            "ring        139.8 ms\n");
}

TEST(Table, CountsCellsNotBytes) {
  Table table({{"host", Align::kLeft}, {"n"}});
  table.add_row({"Zürich", "1"});
  table.add_row({"東京", "2"});
  table.add_row({"e\u0301", "3"});  // An e and a combining accent.
  EXPECT_EQ(table.to_string(),
            "host    n\n"
            "------  -\n"
            "Zürich  1\n"
            "東京    2\n"
            "e\u0301       3\n");
}

TEST(Table, LetsNoCellDriveTheTerminal) {
  Table table({{"host", Align::kLeft}});
  table.add_row({"a\x1b[2Jb\nc"});
  EXPECT_EQ(table.to_string(), "host\n--------\na [2Jb c\n");
}

TEST(DisplayWidth, CountsBrokenUtf8ByteByByte) {
  EXPECT_EQ(display_width("\xC3"), 1u);
  EXPECT_EQ(display_width("\xE2\x82"), 2u);
  EXPECT_EQ(display_width("a\xFF"
                          "b"),
            3u);
  EXPECT_EQ(display_width(""), 0u);
}

TEST(Pad, LeavesLongerTextAsItIs) {
  EXPECT_EQ(pad_right("ab", 4), "ab  ");
  EXPECT_EQ(pad_left("ab", 4), "  ab");
  EXPECT_EQ(pad_left("abcde", 4), "abcde");
}

}  // namespace
}  // namespace sumcast::report

#include "cli/demo_bar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sumcast::cli {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

struct Screen {
  std::string last;
  size_t writes = 0;
  report::Progress::Write writer() {
    return [this](std::string_view text) {
      last = text;
      ++writes;
    };
  }
};

report::Terminal terminal(int columns) { return {true, false, columns}; }

TEST(DemoBar, ShowsMethodCountStepAndLossAtTheRightEnd) {
  Screen screen;
  DemoBar bar(terminal(120), 5, screen.writer());
  bar.begin("in-network", 351, Instant{1});
  EXPECT_THAT(screen.last, HasSubstr("in-network"));
  EXPECT_THAT(screen.last, HasSubstr("1/5"));
  EXPECT_THAT(screen.last, Not(HasSubstr("step")));
  bar.update(120, 0.43217f, Instant{1} + 5s);
  EXPECT_THAT(screen.last, HasSubstr("left"));
  EXPECT_THAT(screen.last, EndsWith("\x1b[92Gstep 120/351  loss 0.4322"));
  bar.update(351, 0.25f, Instant{1} + 6s);
  bar.finish(Instant{1} + 6s);
  EXPECT_THAT(screen.last, EndsWith("step 351/351  loss 0.2500\n"));
  bar.begin("ring", 351, Instant{1} + 7s);
  EXPECT_THAT(screen.last, HasSubstr("2/5"));
  EXPECT_THAT(screen.last, Not(HasSubstr("loss")));
}

TEST(DemoBar, LeavesTheNoteOutOfANarrowTerminal) {
  Screen screen;
  DemoBar bar(terminal(80), 5, screen.writer());
  bar.begin("ring", 10, Instant{1});
  bar.update(5, 1.0f, Instant{1} + 1s);
  EXPECT_THAT(screen.last, HasSubstr("50 %"));
  EXPECT_THAT(screen.last, Not(HasSubstr("loss")));
}

TEST(DemoBar, IsSilentOffATerminalAndEndsAnOpenLineOnOne) {
  Screen screen;
  {
    DemoBar bar({false, false, 120}, 5, screen.writer());
    bar.begin("ring", 10, Instant{1});
    bar.update(5, 1.0f, Instant{1} + 1s);
  }
  EXPECT_EQ(screen.writes, 0u);
  {
    DemoBar bar(terminal(120), 5, screen.writer());
    bar.begin("ring", 10, Instant{1});
    bar.update(5, 1.0f, Instant{1} + 1s);
  }
  EXPECT_EQ(screen.last, "\n");
}

}  // namespace
}  // namespace sumcast::cli

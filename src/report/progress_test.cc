#include "report/progress.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "report/table.h"

namespace sumcast::report {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

constexpr Instant kStart{1'000'000'000};

struct Screen {
  std::string all;
  std::string last;
  int writes = 0;
  Progress::Write writer() {
    return [this](std::string_view text) {
      last = text;
      all += text;
      ++writes;
    };
  }
};

TEST(Progress, WritesNothingOffATerminal) {
  Screen screen;
  {
    Progress progress(Terminal{false, true, 80}, screen.writer());
    progress.expect_bars(2);
    progress.begin("ring", 10, kStart);
    progress.update(5, kStart + 5s);
    progress.finish(kStart + 9s);
    progress.begin("direct", 10, kStart + 9s);
  }
  EXPECT_EQ(screen.writes, 0);
}

TEST(Progress, ShowsLabelCountShareAndTheTimeLeft) {
  Screen screen;
  Progress progress(Terminal{true, false, 120}, screen.writer());
  progress.expect_bars(5);
  progress.begin("ring", 100, kStart);
  progress.update(25, kStart + 10s);
  EXPECT_THAT(screen.last, HasSubstr("ring"));
  EXPECT_THAT(screen.last, HasSubstr(" 1/5 "));
  EXPECT_THAT(screen.last, HasSubstr("██████████░"));  // A quarter of 40 cells.
  EXPECT_THAT(screen.last, HasSubstr(" 25 %  30 s left"));
  progress.finish(kStart + 12s);
  EXPECT_THAT(screen.last, EndsWith("  12 s\n"));
  progress.begin("direct", 100, kStart + 12s);
  EXPECT_THAT(screen.last, HasSubstr(" 2/5 "));
}

TEST(Progress, RedrawsAtMostTenTimesASecond) {
  Screen screen;
  Progress progress(Terminal{true, false, 80}, screen.writer());
  progress.begin("ring", 1'000'000, kStart);
  for (int i = 1; i <= 100'000; ++i) {
    progress.update(static_cast<uint64_t>(i), kStart + i * 10us);  // One second in all.
  }
  EXPECT_GE(screen.writes, 9);
  EXPECT_LE(screen.writes, 11);
}

TEST(Progress, UsesColoursOnlyWhereAllowed) {
  Screen plain, coloured;
  Progress(Terminal{true, false, 80}, plain.writer()).begin("x", 1, kStart);
  Progress(Terminal{true, true, 80}, coloured.writer()).begin("x", 1, kStart);
  EXPECT_THAT(plain.all, Not(HasSubstr("\x1b[2m")));
  EXPECT_THAT(coloured.all, HasSubstr("\x1b[2m"));
}

TEST(Progress, NeverWrapsItsLine) {
  for (const int columns : {50, 60, 80, 200}) {
    Screen screen;
    Progress progress(Terminal{true, false, columns}, screen.writer());
    progress.expect_bars(5);
    progress.begin("halving-doubling", 100, kStart);
    progress.update(50, kStart + 3000s);
    const std::string line = screen.last.substr(4);  // Behind "\r\x1b[K".
    EXPECT_LT(display_width(line), static_cast<size_t>(columns)) << line;
  }
}

TEST(Progress, EndsTheLineOfABarThatWasLeftOpen) {
  Screen screen;
  { Progress(Terminal{true, false, 80}, screen.writer()).begin("ring", 10, kStart); }
  EXPECT_THAT(screen.all, EndsWith("\n"));
}

TEST(ProbeTerminal, FindsNoneBehindAFile) {
  const int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
  const Terminal terminal = probe_terminal(fd, true);
  close(fd);
  EXPECT_FALSE(terminal.present);
  EXPECT_FALSE(terminal.colour);
}

}  // namespace
}  // namespace sumcast::report

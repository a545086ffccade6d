#include "cli/process_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace sumcast::cli {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

TEST(ProcessTree, ReadsTheParentWhateverTheProgramIsCalled) {
  EXPECT_EQ(parent_from_stat("17 (mpirun) S 4 17 17 0"), (std::pair<pid_t, pid_t>{17, 4}));
  EXPECT_EQ(parent_from_stat("17 (a) S 9) R 4 17"), (std::pair<pid_t, pid_t>{17, 4}));
  EXPECT_EQ(parent_from_stat(""), (std::pair<pid_t, pid_t>{0, 0}));
  EXPECT_EQ(parent_from_stat("17 (mpirun"), (std::pair<pid_t, pid_t>{0, 0}));
}

TEST(ProcessTree, FindsAllGenerationsInAnyOrder) {
  EXPECT_THAT(descendants(5, {{9, 8}, {8, 5}, {7, 5}, {6, 1}, {0, 0}}),
              UnorderedElementsAre(5, 8, 7, 9));
  EXPECT_THAT(descendants(3, {{0, 0}, {4, 1}}), ElementsAre(3));
}

char state_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  return text[text.rfind(')') + 2];
}

TEST(ProcessTree, StopsGrandchildrenAndLetsThemGoOn) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const pid_t grandchild = ::fork();
    if (grandchild == 0) {
      for (;;) ::pause();
    }
    (void)!::write(ready[1], &grandchild, sizeof(grandchild));
    for (;;) ::pause();
  }
  pid_t grandchild = 0;
  ASSERT_EQ(::read(ready[0], &grandchild, sizeof(grandchild)),
            static_cast<ssize_t>(sizeof(grandchild)));
  ProcessTree tree(child);
  tree.pause();
  while (state_of(grandchild) != 'T') ::usleep(1000);
  EXPECT_NE(state_of(child), 'T');
  tree.resume();
  while (state_of(grandchild) == 'T') ::usleep(1000);
  ::kill(grandchild, SIGKILL);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
}

}  // namespace
}  // namespace sumcast::cli

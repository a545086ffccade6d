#include "ps/send_queue.h"

#include <gtest/gtest.h>

#include <string>

namespace sumcast::ps {
namespace {

std::string taken(SendQueue<char>& queue, size_t enough) {
  std::string frames;
  queue.take(enough, [&](char frame) { frames += frame; });
  return frames;
}

TEST(SendQueue, TheMostUrgentComesFirstAndEqualsStayInOrder) {
  SendQueue<char> queue;
  queue.push(0, 1, 'c');
  queue.push(-5, 1, 'e');
  queue.push(0, 1, 'd');
  queue.push(7, 1, 'a');
  queue.push(7, 1, 'b');
  EXPECT_EQ(queue.size(), 5u);
  EXPECT_EQ(taken(queue, 100), "abcde");
  EXPECT_TRUE(queue.empty());
}

TEST(SendQueue, LittleIsTakenAtATimeSoThatAnUrgentFrameOvertakesTheRest) {
  SendQueue<char> queue;
  for (const char frame : {'b', 'c', 'd'}) queue.push(0, 1000, frame);
  EXPECT_EQ(taken(queue, 10), "b");
  queue.push(1, 1, 'a');
  EXPECT_EQ(taken(queue, 1001), "ac");
  EXPECT_EQ(queue.size(), 1u);
  EXPECT_EQ(taken(queue, 0), "");
  EXPECT_EQ(taken(queue, 1), "d");
  EXPECT_EQ(taken(queue, 1), "");
}

}  // namespace
}  // namespace sumcast::ps

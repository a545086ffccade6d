#include "ps/rooms.h"

#include <gtest/gtest.h>

#include <cstring>

namespace sumcast::ps {
namespace {

ptrdiff_t put(Room& room, const char* text) {
  return room.fill([&](char* to) {
    std::memcpy(to, text, std::strlen(text));
    return static_cast<ptrdiff_t>(std::strlen(text));
  });
}

TEST(Rooms, AnAnswerGetsTheRoomThatWasPostedForItOnce) {
  Rooms rooms;
  char memory[8] = {};
  rooms.post({1, 2, 3, 8}, ::ps::SArray<char>(memory, sizeof memory));
  EXPECT_EQ(rooms.claim({1, 2, 3, 10}, 8), nullptr) << "another server's part";
  const RoomPtr room = rooms.claim({1, 2, 3, 8}, 8);
  ASSERT_NE(room, nullptr);
  EXPECT_EQ(put(*room, "abcd"), 4);
  EXPECT_EQ(put(*room, "efgh"), 4);
  EXPECT_EQ(std::memcmp(memory, "abcdefgh", 8), 0);
  EXPECT_EQ(room->array().data(), memory);
  EXPECT_EQ(rooms.claim({1, 2, 3, 8}, 8), nullptr) << "it came a second time";
  rooms.release({1, 2, 3, 8});
  EXPECT_EQ(rooms.size(), 0u);
}

TEST(Rooms, AnAnswerOfAnotherSizeGetsNone) {
  Rooms rooms;
  char memory[8] = {};
  rooms.post({1, 2, 3, 8}, ::ps::SArray<char>(memory, sizeof memory));
  EXPECT_EQ(rooms.claim({1, 2, 3, 8}, 16), nullptr);
  EXPECT_EQ(rooms.size(), 0u);
}

TEST(Rooms, AWithdrawnRoomIsNotTouchedAndTheArrayIsStillWhole) {
  Rooms rooms;
  char memory[8] = {};
  for (int server : {8, 10}) {
    rooms.post({1, 2, 3, server}, ::ps::SArray<char>(memory, sizeof memory));
  }
  const RoomPtr room = rooms.claim({1, 2, 3, 8}, 8);
  ASSERT_NE(room, nullptr);
  put(*room, "abcd");
  rooms.withdraw(1, 2, 3);
  EXPECT_EQ(rooms.size(), 0u);
  std::memset(memory, 'x', sizeof memory);
  put(*room, "efgh");
  EXPECT_EQ(std::memcmp(memory, "xxxxxxxx", 8), 0);
  EXPECT_EQ(std::memcmp(room->array().data(), "abcdefgh", 8), 0);
}

TEST(Rooms, ADeadServersAndALeavingCustomersRoomsGo) {
  Rooms rooms;
  char memory[8] = {};
  for (int customer : {0, 1}) {
    for (int server : {8, 10}) {
      rooms.post({1, customer, 3, server}, ::ps::SArray<char>(memory, sizeof memory));
    }
  }
  rooms.withdraw_server(8);
  EXPECT_EQ(rooms.size(), 2u);
  EXPECT_EQ(rooms.claim({1, 0, 3, 8}, 8), nullptr);
  rooms.withdraw(1, 0);
  EXPECT_EQ(rooms.size(), 1u);
  EXPECT_NE(rooms.claim({1, 1, 3, 10}, 8), nullptr);
}

}  // namespace
}  // namespace sumcast::ps

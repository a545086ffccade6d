#include "mesh/match_board.h"

#include <gtest/gtest.h>

namespace sumcast::mesh {
namespace {

ReceivePtr receive(std::optional<Rank> from, uint64_t tag) {
  auto made = std::make_shared<Receive>();
  made->owner = std::make_shared<Exchange>();
  made->what.from = from;
  made->what.tag = tag;
  return made;
}
ArrivalPtr arrival(uint16_t from, uint64_t tag) {
  auto made = std::make_shared<Arrival>();
  made->from = Rank(from);
  made->tag = tag;
  return made;
}

TEST(MatchBoard, TheOldestReceiveThatFitsTakesAMessage) {
  MatchBoard board;
  const auto other = receive(Rank(1), 5), any = receive(std::nullopt, 7),
             named = receive(Rank(1), 7);
  for (const auto& one : {other, any, named}) board.post(one);
  EXPECT_EQ(board.take_receive(Rank(1), 7), any);
  EXPECT_EQ(board.take_receive(Rank(2), 7), nullptr);
  EXPECT_EQ(board.take_receive(Rank(1), 7), named);
  EXPECT_EQ(board.take_receive(Rank(1), 7), nullptr);
}

TEST(MatchBoard, TheOldestArrivalThatFitsIsTaken) {
  MatchBoard board;
  const auto first = arrival(2, 7), second = arrival(1, 7), third = arrival(1, 7);
  for (const auto& one : {first, second, third}) board.keep(one);
  EXPECT_EQ(board.take_arrival(receive(Rank(1), 7)->what), second);
  EXPECT_EQ(board.take_arrival(receive(std::nullopt, 7)->what), first);
  EXPECT_EQ(board.take_arrival(receive(std::nullopt, 8)->what), nullptr);
  EXPECT_EQ(board.take_arrival(receive(Rank(1), 7)->what), third);
}

TEST(MatchBoard, AWithdrawnOwnerTakesNothing) {
  MatchBoard board;
  const auto gone = receive(Rank(1), 7), stays = receive(Rank(1), 7);
  board.post(gone);
  board.post(stays);
  EXPECT_EQ(board.waiting_for(Rank(1)).size(), 2u);
  board.withdraw(*gone->owner);
  EXPECT_EQ(board.waiting_for(Rank(1)).size(), 1u);
  EXPECT_EQ(board.take_receive(Rank(1), 7), stays);
}

}  // namespace
}  // namespace sumcast::mesh

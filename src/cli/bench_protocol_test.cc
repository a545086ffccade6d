#include "cli/bench_protocol.h"

#include <gtest/gtest.h>

namespace sumcast::cli {
namespace {

TEST(BenchProtocol, ReadsTheCommandsThatItWrites) {
  Command command;
  command.kind = Command::Kind::kCase;
  command.bench = {Collective::kReduceScatter,
                   ElementType::kBF16,
                   Reduction::kMax,
                   WireFormat::kInt8,
                   3,
                   uint64_t{1} << 33,
                   uint64_t{1} << 36,
                   32};
  EXPECT_EQ(command_from_line(to_line(command))->bench, command.bench);
  command.kind = Command::Kind::kFill;
  command.in_place = true;
  EXPECT_TRUE(command_from_line(to_line(command))->in_place);
  command.kind = Command::Kind::kGo;
  command.start.ns = 123456789012;
  EXPECT_EQ(command_from_line(to_line(command))->start.ns, 123456789012);
  command.kind = Command::Kind::kCheck;
  EXPECT_EQ(command_from_line(to_line(command))->kind, Command::Kind::kCheck);
}

TEST(BenchProtocol, ReadsTheRepliesThatItWrites) {
  Reply reply;
  reply.kind = Reply::Kind::kDone;
  reply.wall = 5ms;
  reply.cpu = 2us;
  reply.retransmits = 9;
  const Reply read = reply_from_line(to_line(reply)).value();
  EXPECT_EQ(read.kind, Reply::Kind::kDone);
  EXPECT_EQ(read.wall, 5ms);
  EXPECT_EQ(read.cpu, 2us);
  EXPECT_EQ(read.retransmits, 9u);
  reply.kind = Reply::Kind::kError;
  reply.error = "rank 3:\ngone";
  EXPECT_EQ(reply_from_line(to_line(reply))->error, "rank 3: gone");
  reply.kind = Reply::Kind::kHello;
  reply.payload_bytes = 1424;
  EXPECT_EQ(reply_from_line(to_line(reply))->payload_bytes, 1424u);
  reply.kind = Reply::Kind::kWrong;
  reply.wrong = 4;
  EXPECT_EQ(reply_from_line(to_line(reply))->wrong, 4u);
  EXPECT_EQ(reply_from_line("ready")->kind, Reply::Kind::kReady);
}

TEST(BenchProtocol, RefusesEverythingElse) {
  for (const char* line : {"", "go", "go x", "go 1 2", "fill 2", "case 1 2 3",
                           "case 9 0 0 0 0 0 0 0", "gone 5", "check "}) {
    EXPECT_FALSE(command_from_line(line)) << line;
  }
  for (const char* line : {"", "done 1 2", "done 1 2 3 4", "hello", "wrong -1", "readiness"}) {
    EXPECT_FALSE(reply_from_line(line)) << line;
  }
}

}  // namespace
}  // namespace sumcast::cli

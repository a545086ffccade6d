// Two links at the ends of a connection over loopback.
#include "ps/link.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <thread>
#include <utility>

#include "ps/loan.h"

namespace sumcast::ps {
namespace {

struct Pair {
  std::unique_ptr<Link> client, server;
};

Pair connected(const auth::Key* client_key, const auth::Key* server_key) {
  const Instant deadline = net::monotonic_now() + Duration(5s);
  auto listener = net::TcpListener::open(net::Endpoint::loopback(net::Family::kIpv4, 0));
  auto client = net::connect_tcp(listener->local(), std::nullopt, deadline);
  std::optional<net::TcpConnection> server;
  while (!server) server = std::move(*listener->accept());
  Pair pair;
  pair.client = std::make_unique<Link>(std::move(*client), client_key, auth::Side::kClient, true);
  pair.server = std::make_unique<Link>(std::move(*server), server_key, auth::Side::kServer, true);
  return pair;
}

Pair open_pair(const auth::Key* client_key, const auth::Key* server_key) {
  Pair pair = connected(client_key, server_key);
  EXPECT_TRUE(pair.client->on_preface(pair.server->preface()));
  EXPECT_TRUE(pair.server->on_preface(pair.client->preface()));
  pair.client->node = 8;
  pair.server->node = 9;
  return pair;
}

::ps::Message message_of(size_t bytes) {
  ::ps::Message message;
  message.meta.timestamp = static_cast<int>(bytes);
  ::ps::SArray<uint8_t> array(bytes, uint8_t{0});
  for (size_t i = 0; i < bytes; ++i) array[i] = static_cast<uint8_t>(i * 7 + i / 251);
  message.AddData(array);
  return message;
}

void send(Link& link, const ::ps::Message& message) {
  link.send(header_of(message), message.data, message.meta.data_type, message.meta.body);
}

/// Sends messages of these sizes from one to the other; what arrived of each, and the last verdict.
LinkVerdict exchange(Link& from, Link& to, const std::vector<size_t>& sizes,
                     std::vector<::ps::Message>& arrived) {
  for (const size_t size : sizes) send(from, message_of(size));
  LinkVerdict verdict = LinkVerdict::kOpen;
  for (int i = 0; i < 20000 && arrived.size() < sizes.size() && verdict == LinkVerdict::kOpen;
       ++i) {
    from.write();
    verdict = to.read(1 << 20, [&](const FrameHeader& header, FrameBytes frame, const RoomPtr&) {
      std::vector<size_t> lent;
      auto message = read_message(header, frame, lent);
      EXPECT_TRUE(message);
      EXPECT_TRUE(lent.empty());
      arrived.push_back(*message);
      return true;
    });
  }
  return verdict;
}

const std::vector<size_t> kSizes = {0,     1,      8,       2048,   2049,      65535, 1,
                                    65536, 100000, 5 << 20, 262144, (1 << 20), 3};

void expect_all(const std::vector<::ps::Message>& arrived) {
  ASSERT_EQ(arrived.size(), kSizes.size());
  for (size_t i = 0; i < kSizes.size(); ++i) {
    const auto expected = message_of(kSizes[i]);
    EXPECT_EQ(arrived[i].meta.timestamp, expected.meta.timestamp);
    ASSERT_EQ(arrived[i].data[0].size(), kSizes[i]);
    EXPECT_TRUE(
        std::equal(arrived[i].data[0].begin(), arrived[i].data[0].end(), expected.data[0].begin()));
  }
}

TEST(Link, MessagesOfAllSizesArriveInOrder) {
  Pair pair = open_pair(nullptr, nullptr);
  std::vector<::ps::Message> there, back;
  EXPECT_EQ(exchange(*pair.client, *pair.server, kSizes, there), LinkVerdict::kOpen);
  expect_all(there);
  EXPECT_EQ(exchange(*pair.server, *pair.client, kSizes, back), LinkVerdict::kOpen);
  expect_all(back);
  EXPECT_TRUE(pair.client->is_idle());
}

TEST(Link, SealedMessagesArriveToo) {
  const auth::Key key = auth::random_key();
  Pair pair = open_pair(&key, &key);
  std::vector<::ps::Message> there;
  EXPECT_EQ(exchange(*pair.client, *pair.server, kSizes, there), LinkVerdict::kOpen);
  expect_all(there);
}

TEST(Link, AnotherKeyOpensNothing) {
  const auth::Key one = auth::random_key(), two = auth::random_key();
  for (const size_t size : {size_t{8}, size_t{5} << 20}) {
    Pair pair = open_pair(&one, &two);
    std::vector<::ps::Message> there;
    EXPECT_EQ(exchange(*pair.client, *pair.server, {size}, there), LinkVerdict::kBroken);
    EXPECT_TRUE(there.empty());
  }
}

/// A message of one array, of memory that is not to be read behind its first bytes.
class Untouchable {
 public:
  Untouchable(size_t readable, size_t whole)
      : whole_(whole),
        memory_(static_cast<char*>(::mmap(nullptr, whole, PROT_NONE,
                                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {
    EXPECT_EQ(::mprotect(memory_, readable, PROT_READ | PROT_WRITE), 0);
    message_.AddData(::ps::SArray<char>(memory_, whole));
  }
  ~Untouchable() { ::munmap(memory_, whole_); }
  const ::ps::Message& message() const { return message_; }

 private:
  const size_t whole_;
  char* const memory_;
  ::ps::Message message_;
};

TEST(Link, ALargeMessageIsSealedAsItLeavesNotAtOnce) {
  const auth::Key key = auth::random_key();
  Pair pair = open_pair(&key, &key);
  const Untouchable huge(size_t{32} << 20, size_t{8} << 30);
  send(*pair.client, huge.message());
  EXPECT_EQ(pair.client->queued_frames(), 1u);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(pair.client->write(1 << 20), WriteVerdict::kPending);
}

TEST(Link, WhatIsWrittenIntoAnArrayUnderWayBreaksNoSeal) {
  const auth::Key key = auth::random_key();
  Pair pair = open_pair(&key, &key);
  const ::ps::Message message = message_of(8 << 20);
  send(*pair.client, message);
  EXPECT_EQ(pair.client->write(1 << 20), WriteVerdict::kPending);
  std::fill(message.data[0].data(), message.data[0].data() + message.data[0].size(), char{1});
  std::vector<::ps::Message> there;
  EXPECT_EQ(exchange(*pair.client, *pair.server, {8}, there), LinkVerdict::kOpen);
  ASSERT_GE(there.size(), 1u);
  EXPECT_EQ(there[0].data[0].size(), size_t{8} << 20);
}

TEST(Link, AKeyAtOneEndOnlyIsToldAtBoth) {
  const auth::Key key = auth::random_key();
  Pair pair = connected(&key, nullptr);
  EXPECT_FALSE(pair.client->on_preface(pair.server->preface()));
  EXPECT_FALSE(pair.server->on_preface(pair.client->preface()));
}

TEST(Link, AStrangerCannotAnnounceMuch) {
  Pair pair = open_pair(nullptr, nullptr);
  pair.server->node = -1;
  std::vector<::ps::Message> there;
  EXPECT_EQ(exchange(*pair.client, *pair.server, {1 << 20}, there), LinkVerdict::kBroken);
}

TEST(Link, LargeArraysAreLentAndKeptUntilTheyReturn) {
  Pair pair = open_pair(nullptr, nullptr);
  pair.client->may_lend = true;
  const auto message = message_of(1 << 20);
  send(*pair.client, message);
  pair.client->write();
  EXPECT_FALSE(pair.client->is_idle());
  uint64_t id = 0;
  for (int i = 0; i < 1000 && id == 0; ++i) {
    pair.server->read(1 << 20, [&](const FrameHeader& header, FrameBytes frame, const RoomPtr&) {
      std::vector<size_t> lent;
      auto arrived = read_message(header, frame, lent);
      EXPECT_TRUE(arrived);
      EXPECT_EQ(lent, std::vector<size_t>{0});
      Loan loan;
      std::memcpy(&loan, arrived->data[0].data(), sizeof loan);
      EXPECT_EQ(loan.bytes, size_t{1} << 20);
      std::vector<char> copy(1 << 20);
      EXPECT_TRUE(read_memory(::getpid(), loan.address, copy.data(), copy.size()));
      EXPECT_EQ(std::memcmp(copy.data(), message.data[0].data(), copy.size()), 0);
      id = loan.id;
      return true;
    });
  }
  ASSERT_NE(id, 0u);
  EXPECT_GT(message.data[0].ptr().use_count(), 1);
  pair.client->on_return(id);
  EXPECT_TRUE(pair.client->is_idle());
  EXPECT_EQ(message.data[0].ptr().use_count(), 1);
}

TEST(Link, WhatIsNoMemoryCannotBeRead) {
  char to[16];
  EXPECT_FALSE(read_memory(::getpid(), 16, to, sizeof to));
}

TEST(Link, AnswersToDaresBelongToConnectionAndSide) {
  Pair pair = open_pair(nullptr, nullptr), other = open_pair(nullptr, nullptr);
  const uint64_t dare = pair.client->dare;
  EXPECT_NE(dare, other.client->dare);
  EXPECT_EQ(pair.client->answer_to(dare, false), pair.server->answer_to(dare, true));
  // Neither our own answer to it nor that of another connection will do.
  EXPECT_NE(pair.client->answer_to(dare, false), pair.client->answer_to(dare, true));
  EXPECT_NE(pair.client->answer_to(dare, false), other.server->answer_to(dare, true));
}

/// An answer of keys, values and lens; the values' bytes are a multiple of 8.
::ps::Message answer_of(size_t keys, size_t values) {
  ::ps::Message message;
  message.AddData(::ps::SArray<uint64_t>(keys, 5));
  ::ps::SArray<float> floats(values, 0.0f);
  for (size_t i = 0; i < values; ++i) floats[i] = static_cast<float>(i);
  message.AddData(floats);
  message.AddData(::ps::SArray<int>(3, 9));
  return message;
}

/// Receives one answer; `during` is called whenever nothing has come for the moment.
::ps::Message receive_answer(Pair& pair, const std::function<void()>& during) {
  ::ps::Message arrived;
  for (int i = 0; i < 20000 && arrived.data.empty(); ++i) {
    EXPECT_NE(pair.client->write(), WriteVerdict::kFailed);
    EXPECT_EQ(
        pair.server->read(64 << 10,
                          [&](const FrameHeader& header, FrameBytes frame, const RoomPtr& room) {
                            std::vector<size_t> lent;
                            ::ps::SArray<char> values;
                            if (room != nullptr) values = room->array();
                            auto message = read_message(header, frame, lent,
                                                        room != nullptr ? &values : nullptr);
                            EXPECT_TRUE(message);
                            arrived = std::move(*message);
                            return true;
                          }),
        LinkVerdict::kOpen);
    during();
  }
  return arrived;
}

void expect_whole(const ::ps::Message& sent, const ::ps::Message& arrived) {
  ASSERT_EQ(arrived.data.size(), sent.data.size());
  for (size_t i = 0; i < sent.data.size(); ++i) {
    ASSERT_EQ(arrived.data[i].size(), sent.data[i].size());
    EXPECT_EQ(std::memcmp(arrived.data[i].data(), sent.data[i].data(), sent.data[i].size()), 0);
  }
}

TEST(Link, ValuesAreReceivedInTheRoomThatTheProgramOffers) {
  Pair pair = open_pair(nullptr, nullptr);
  const ::ps::Message sent = answer_of(3, 1 << 20);
  std::vector<char> memory(sent.data[1].size());
  pair.server->find_room = [&](const FrameHeader&, size_t bytes) {
    EXPECT_EQ(bytes, memory.size());
    return std::make_shared<Room>(::ps::SArray<char>(memory.data(), bytes));
  };
  send(*pair.client, sent);
  const ::ps::Message arrived = receive_answer(pair, [] {});
  expect_whole(sent, arrived);
  EXPECT_EQ(arrived.data[1].data(), memory.data());
}

TEST(Link, ARoomThatIsTakenBackHalfFullIsNotWrittenAnyMore) {
  Pair pair = open_pair(nullptr, nullptr);
  const ::ps::Message sent = answer_of(3, 1 << 20);
  std::vector<char> memory(sent.data[1].size());
  Rooms rooms;
  rooms.post({0, 0, 7, 8}, ::ps::SArray<char>(memory.data(), memory.size()));
  pair.server->find_room = [&](const FrameHeader&, size_t bytes) {
    return rooms.claim({0, 0, 7, 8}, bytes);
  };
  send(*pair.client, sent);
  bool taken_back = false;
  const ::ps::Message arrived = receive_answer(pair, [&] {
    const bool has_begun = memory[6] != 0 || memory[7] != 0;  // 1.0f
    if (!has_begun || taken_back) return;
    taken_back = true;
    rooms.withdraw(0, 0, 7);
    std::fill(memory.begin(), memory.end(), char{77});
  });
  EXPECT_TRUE(taken_back);
  expect_whole(sent, arrived);
  EXPECT_TRUE(std::all_of(memory.begin(), memory.end(), [](char c) { return c == 77; }));
}

/// Sends large frames of priority 0 until the kernel takes no more, then an urgent one; in which
/// place the urgent one arrives, of how many.
std::pair<size_t, size_t> overtake(Pair& pair, bool by_priority) {
  if (by_priority) pair.client->enable_priority();
  ::ps::Message urgent = message_of(8);
  urgent.meta.priority = 3;
  for (int i = 0; i < 64; ++i) send(*pair.client, message_of(1 << 20));
  EXPECT_EQ(pair.client->write(), WriteVerdict::kPending) << "the kernel took 64 MiB";
  const size_t queued = pair.client->queued_frames();
  EXPECT_GT(queued, 2u);
  EXPECT_LT(queued, 65u);
  send(*pair.client, urgent);
  EXPECT_EQ(pair.client->queued_frames(), queued + 1);
  std::vector<size_t> sizes;
  for (int i = 0; i < 20000 && sizes.size() < 65; ++i) {
    EXPECT_NE(pair.client->write(), WriteVerdict::kFailed);
    pair.server->read(4 << 20, [&](const FrameHeader& header, FrameBytes, const RoomPtr&) {
      sizes.push_back(header.payload_bytes);
      return true;
    });
  }
  EXPECT_EQ(pair.client->queued_frames(), 0u);
  const auto smallest = std::min_element(sizes.begin(), sizes.end());
  return {static_cast<size_t>(smallest - sizes.begin()), sizes.size()};
}

TEST(Link, AnUrgentFrameOvertakesThoseThatWaitIfPrioritiesCount) {
  auth::Key key;
  for (const auth::Key* const sealed :
       {static_cast<const auth::Key*>(nullptr), static_cast<const auth::Key*>(&key)}) {
    Pair plain = open_pair(sealed, sealed);
    EXPECT_EQ(overtake(plain, false), (std::pair<size_t, size_t>{64, 65}));
    Pair ordered = open_pair(sealed, sealed);
    const auto [place, of] = overtake(ordered, true);
    EXPECT_EQ(of, 65u);
    EXPECT_LT(place, 62u);
  }
}

}  // namespace
}  // namespace sumcast::ps

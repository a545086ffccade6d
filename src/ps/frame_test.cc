#include "ps/frame.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/prng.h"
#include "ps/block_pool.h"
#include "ps/control.h"

namespace sumcast::ps {
namespace {

/// The bytes of a message, as a link lays them out.
std::vector<char> bytes_of(const ::ps::Message& message) {
  const FrameHeader header = header_of(message);
  std::vector<char> bytes(kHeaderBytes + header.payload_bytes);
  std::memcpy(bytes.data(), &header, kHeaderBytes);
  size_t at = kHeaderBytes;
  for (size_t i = 0; i < message.data.size(); ++i, at += 8) {
    const uint64_t word = table_word(message.meta.data_type[i], message.data[i].size());
    std::memcpy(bytes.data() + at, &word, 8);
  }
  std::copy(message.meta.body.begin(), message.meta.body.end(),
            bytes.begin() + static_cast<ptrdiff_t>(at));
  at += padded(message.meta.body.size());
  for (const auto& array : message.data) {
    std::copy(array.begin(), array.end(), bytes.begin() + static_cast<ptrdiff_t>(at));
    at += padded(array.size());
  }
  return bytes;
}

Result<::ps::Message> read(const std::vector<char>& bytes) {
  const auto header = read_header(bytes.data());
  if (!header) return fail(header.error());
  if (bytes.size() != kHeaderBytes + header->payload_bytes)
    return fail(ErrorCode::kDenied, "short");
  FrameBytes frame = make_block(bytes.size());
  std::copy(bytes.begin(), bytes.end(), frame.get());
  std::vector<size_t> lent;
  auto message = read_message(*header, frame, lent);
  EXPECT_TRUE(!message || lent.empty() || bytes.size() > 80);
  return message;
}

::ps::Message sample() {
  ::ps::Message message;
  message.meta.head = -3;
  message.meta.app_id = 1;
  message.meta.customer_id = 2;
  message.meta.timestamp = 77;
  message.meta.sender = 9;
  message.meta.request = message.meta.push = true;
  message.meta.priority = 5;
  message.meta.body = "text";
  const ::ps::SArray<uint64_t> keys = {uint64_t{0}, UINT64_MAX};
  const ::ps::SArray<float> vals = {1.5f, 2.5f, 3.5f};
  const ::ps::SArray<int> lens = {1, 2};
  message.AddData(keys);
  message.AddData(vals);
  message.AddData(lens);
  return message;
}

TEST(Frame, AMessageComesBackAsItWas) {
  const auto message = read(bytes_of(sample()));
  ASSERT_TRUE(message);
  EXPECT_EQ(message->meta.DebugString(), sample().meta.DebugString());
  EXPECT_EQ(message->meta.priority, 5);
  ASSERT_EQ(message->data.size(), 3u);
  const ::ps::SArray<uint64_t> keys(message->data[0]);
  EXPECT_EQ(keys[1], UINT64_MAX);
  const ::ps::SArray<float> vals(message->data[1]);
  ASSERT_EQ(vals.size(), 3u);
  EXPECT_EQ(vals[2], 3.5f);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(vals.data()) % 8, 0u);
}

TEST(Frame, WhatContradictsItselfIsRefused) {
  const auto good = bytes_of(sample());
  const auto with = [&](size_t at, uint64_t value, size_t bytes) {
    auto bad = good;
    std::memcpy(bad.data() + at, &value, bytes);
    return bad;
  };
  EXPECT_FALSE(read(with(16, kFrameKindMax + 1, 1)));             // Kind.
  EXPECT_FALSE(read(with(18, 17, 2)));                            // Arrays.
  EXPECT_FALSE(read(with(0, 3, 8)));                              // A length that is not padded.
  EXPECT_FALSE(read(with(0, kPayloadBytesMax + 8, 8)));           // More than there can be.
  EXPECT_FALSE(read(with(20, 1u << 30, 4)));                      // A text beyond the end.
  EXPECT_FALSE(read(with(48, table_word(::ps::UINT64, 17), 8)));  // Half a key.
  EXPECT_FALSE(read(with(48, table_word(::ps::UINT64, 1 << 20), 8)));
  EXPECT_FALSE(read(with(48, table_word(static_cast<::ps::DataType>(12), 16), 8)));
  EXPECT_FALSE(read(with(48, table_word(::ps::UINT64, 8), 8)));  // Something is left over.
}

TEST(Frame, RandomBytesNeverReadBeyondTheFrame) {
  const auto good = bytes_of(sample());
  Prng prng(3);
  int accepted = 0;
  for (int i = 0; i < 100000; ++i) {
    auto bad = good;
    for (int flips = 0; flips < 3; ++flips) {
      bad[prng.below(80)] = static_cast<char>(prng.next_u32());
    }
    if (const auto message = read(bad)) {
      ++accepted;
      for (const auto& array : message->data) {
        uint64_t sum = 0;
        for (char c : array) sum += static_cast<unsigned char>(c);
        EXPECT_LT(sum, UINT64_MAX);
      }
    }
  }
  EXPECT_GT(accepted, 0);
}

TEST(Frame, ControlMessagesComeBackAsTheyWere) {
  ControlMessage message;
  message.kind = "nodes";
  message.node = 11;
  message.epoch = UINT64_MAX;
  message.token = 5;
  message.why = "a \"quoted\" reason\n";
  ::ps::Node node;
  node.role = ::ps::Node::WORKER;
  node.id = 11;
  node.hostname = "10.0.0.1";
  node.port = 4711;
  message.nodes = {node};
  const auto back = parse_control(to_text(message));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->kind, message.kind);
  EXPECT_EQ(back->epoch, message.epoch);
  EXPECT_EQ(back->why, message.why);
  ASSERT_EQ(back->nodes.size(), 1u);
  EXPECT_EQ(back->nodes[0].DebugString(), node.DebugString());
}

TEST(Frame, OtherTextIsNoControlMessage) {
  for (const char* const text :
       {"", "[]", "{}", "{\"kind\": 3}", "{\"kind\": \"add\", \"nodes\": [{}]}",
        "{\"kind\": \"add\", \"nodes\": [{\"role\": 1, \"host\": \"a\", \"port\": 70000}]}"}) {
    EXPECT_FALSE(parse_control(text)) << text;
  }
  EXPECT_TRUE(parse_control("{\"kind\": \"beat\", \"node\": \"x\"}"));
}

}  // namespace
}  // namespace sumcast::ps

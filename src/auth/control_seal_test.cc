#include "auth/control_seal.h"

#include <gtest/gtest.h>

#include <string_view>

namespace sumcast::auth {
namespace {

std::span<const std::byte> bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

class ControlSealTest : public ::testing::Test {
 protected:
  Key job_ = random_key();
  ControlNonce client_nonce_ = random_nonce();
  ControlNonce server_nonce_ = random_nonce();
  ControlSeal client_{job_, client_nonce_, server_nonce_, Side::kClient};
  ControlSeal server_{job_, client_nonce_, server_nonce_, Side::kServer};
};

TEST_F(ControlSealTest, FramesOpenInOrderBothWays) {
  for (const char* text : {"join", "", "heartbeat"}) {
    EXPECT_TRUE(server_.open(bytes(text), client_.seal(bytes(text))));
    EXPECT_TRUE(client_.open(bytes(text), server_.seal(bytes(text))));
  }
}

TEST_F(ControlSealTest, ADifferentBodyDoesNotOpen) {
  const SealTag tag = client_.seal(bytes("join 3"));
  EXPECT_FALSE(server_.open(bytes("join 4"), tag));
  EXPECT_FALSE(server_.open(bytes("join 3 "), tag));
  EXPECT_TRUE(server_.open(bytes("join 3"), tag));
}

TEST_F(ControlSealTest, InPartsItIsTheSameSeal) {
  for (int i = 0; i < 2; ++i) {
    FrameTag out = client_.begin_seal(), in = server_.begin_open();
    for (const char* part : {"he", "", "artbeat"}) out.add(bytes(part));
    const SealTag tag = client_.seal(std::move(out));
    for (const char* part : {"heart", "beat"}) in.add(bytes(part));
    EXPECT_TRUE(server_.open(std::move(in), tag));
    EXPECT_TRUE(server_.open(bytes("heartbeat"), client_.seal(bytes("heartbeat"))));
  }
  FrameTag wrong = server_.begin_open();
  wrong.add(bytes("heartbeats"));
  EXPECT_FALSE(server_.open(std::move(wrong), client_.seal(bytes("heartbeat"))));
}

TEST_F(ControlSealTest, AReplayedFrameDoesNotOpen) {
  const SealTag tag = client_.seal(bytes("heartbeat"));
  EXPECT_TRUE(server_.open(bytes("heartbeat"), tag));
  EXPECT_FALSE(server_.open(bytes("heartbeat"), tag));
}

TEST_F(ControlSealTest, AFrameAfterALostOneDoesNotOpen) {
  client_.seal(bytes("first"));
  EXPECT_FALSE(server_.open(bytes("second"), client_.seal(bytes("second"))));
}

TEST_F(ControlSealTest, AReflectedFrameDoesNotOpen) {
  EXPECT_FALSE(client_.open(bytes("heartbeat"), client_.seal(bytes("heartbeat"))));
}

TEST_F(ControlSealTest, AnotherKeyOrNonceDoesNotOpen) {
  ControlSeal wrong_key(random_key(), client_nonce_, server_nonce_, Side::kServer);
  EXPECT_FALSE(wrong_key.open(bytes("join"), client_.seal(bytes("join"))));
  ControlSeal again(job_, client_nonce_, random_nonce(), Side::kServer);
  ControlSeal fresh(job_, client_nonce_, server_nonce_, Side::kClient);
  EXPECT_FALSE(again.open(bytes("join"), fresh.seal(bytes("join"))));
}

}  // namespace
}  // namespace sumcast::auth

#include "control/messages.h"

#include <gtest/gtest.h>

#include "base/prng.h"

namespace sumcast::control {
namespace {

const GroupActivity kActivity{
    GroupId(3), 12, 11, "all_reduce f32[9] sum", milliseconds(35), "t", milliseconds(60'000)};

std::vector<ClientMessage> client_messages() {
  return {Join{"x", Rank(3), 8, "boot", "h:1", "a:1", "a:2", "tag", milliseconds(10'000)},
          OpenGroup{"world", {Rank(0), Rank(3)}, 1420, 128, milliseconds(5000)},
          OpenGroup{"g", {Rank(0)}, 1420, 1, milliseconds(1), "another user", GroupId(3)},
          CloseGroup{GroupId(65535)},
          Heartbeat{7, {kActivity, kActivity}},
          Overdue{GroupId(1), 1ull << 40, "barrier", milliseconds(5000)},
          Mismatch{GroupId(1), Rank(0), 0xFFFFFFFF, Rank(1), 0},
          Description{GroupId(1), 9, 12, "all_reduce"},
          Leave{{kActivity}},
          GiveUp{GroupId(2), ErrorCode::kMismatch, "enough"}};
}

std::vector<ServerMessage> server_messages() {
  const Member member{Rank(1), "boot", "h:1", "a:1", "a:2", "10.0.0.1", "tag"};
  return {Welcome{Incarnation(0xFFFFFFFF), Epoch(1), {member, member}, {"a:1"}, milliseconds(250)},
          Refused{"key", ErrorCode::kTimeout, "waiting"},
          GroupOpened{"key", GroupId(2), {Rank(0)}, SlotIndex(65535), 1, 1420, {0}},
          Describe{GroupId(2), 1, 7, 0xAAAA},
          ReportNow{3},
          Abort{std::nullopt, ErrorCode::kAborted, "gone", {}},
          Abort{GroupId(0), ErrorCode::kMismatch, "differs", {Rank(0), Rank(1)}},
          Left{Rank(2), {{GroupId(0), 4}}},
          Waiting{GroupId(0), "for rank 1"},
          Waiting{std::nullopt, "for rank 1"},
          Goodbye{}};
}

TEST(Messages, ComeBackAsTheyWent) {
  for (const ClientMessage& message : client_messages()) {
    const auto decoded = decode_client_message(encode(message));
    ASSERT_TRUE(decoded.has_value()) << decoded.error().what;
    EXPECT_EQ(*decoded, message) << encode(message);
  }
  for (const ServerMessage& message : server_messages()) {
    const auto decoded = decode_server_message(encode(message));
    ASSERT_TRUE(decoded.has_value()) << decoded.error().what;
    EXPECT_EQ(*decoded, message) << encode(message);
  }
  const ServerHello server{kProtocol, "00ff", false};
  EXPECT_EQ(decode_server_hello(encode(server)).value(), server);
  const ClientHello client{kProtocol, "00ff", true};
  EXPECT_EQ(decode_client_hello(encode(client)).value(), client);
}

TEST(Messages, HaveAWireFormThatDoesNotDrift) {
  EXPECT_EQ(encode(ClientMessage(OpenGroup{"g", {Rank(1)}, 2, 3, milliseconds(4)})),
            R"({"alone":"","key":"g","kind":"open_group","leaders_of":null,"payload_bytes_max":2,)"
            R"("ranks":[1],"slots_wanted":3,"timeout_ms":4})");
  EXPECT_EQ(encode(ServerMessage(Abort{std::nullopt, ErrorCode::kAborted, "t", {}})),
            R"({"code":6,"group":null,"kind":"abort","ranks":[],"text":"t"})");
  EXPECT_EQ(encode(ServerHello{1, "ab", true}),
            R"({"kind":"hello","nonce":"ab","protocol":1,"sealed":true})");
}

TEST(Messages, RefuseWhatIsNotExactlyRightWithALineThatSaysWhat) {
  const auto complaint = [](std::string_view body) {
    const auto decoded = decode_client_message(body);
    return decoded ? std::string("accepted") : decoded.error().what;
  };
  EXPECT_EQ(complaint(""), "a control message is not a JSON object");
  EXPECT_EQ(complaint("[1]"), "a control message is not a JSON object");
  EXPECT_EQ(complaint("{}"), "a control message has no kind");
  EXPECT_EQ(complaint(R"({"kind":7})"), "a control message has no kind");
  EXPECT_EQ(complaint(R"({"kind":"frob"})"), "a control message of the unknown kind \"frob\"");
  EXPECT_EQ(complaint(R"({"kind":"welcome"})"),
            "a control message of the unknown kind \"welcome\"");
  EXPECT_EQ(complaint(R"({"kind":"close_group"})"),
            "a control message of kind \"close_group\": field \"group\" is missing");
  for (const char* wrong : {"-1", "65536", "1.5", "\"1\"", "null", "[1]", "true"}) {
    EXPECT_EQ(complaint(std::string(R"({"kind":"close_group","group":)") + wrong + "}"),
              "a control message of kind \"close_group\": field \"group\" is not what it should be")
        << wrong;
  }
  EXPECT_EQ(complaint(R"({"kind":"close_group","group":1,"more":2})"),
            "a control message of kind \"close_group\": it has surplus fields");
  EXPECT_EQ(complaint(R"({"kind":"leave","groups":[{"group":1}]})"),
            "a control message of kind \"leave\": field \"groups\" is not what it should be");
  EXPECT_EQ(complaint(std::string(kBodyBytesMax + 1, ' ')),
            "a control message of 4194305 bytes is too long");
  EXPECT_EQ(complaint(std::string(100'000, '[')), "a control message is not a JSON object");
}

TEST(Messages, SurviveTextsThatAreNotText) {
  const std::string odd = "a\nb\x7f\xff\xc3";
  const auto decoded = decode_client_message(encode(ClientMessage(Description{{}, 1, 1, odd})));
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(std::get<Description>(*decoded).text, "a b \xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(Messages, CutTextsThatAreTooLong) {
  const std::string text(kTextBytesMax + 100, '\xff');
  const auto decoded = decode_client_message(encode(ClientMessage(Description{{}, 1, 1, text})));
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(std::get<Description>(*decoded).text.size(), 3 * kTextBytesMax);
}

TEST(Messages, ReadOnlyTheNumberOfAnotherProtocolsHello) {
  const auto hello = decode_server_hello(R"({"kind":"hello","protocol":9,"novelty":[]})");
  ASSERT_TRUE(hello.has_value());
  EXPECT_EQ(hello->protocol, 9u);
  const std::string ours = std::to_string(kProtocol);
  EXPECT_FALSE(decode_server_hello(R"({"kind":"hello","protocol":)" + ours + R"(,"novelty":[]})")
                   .has_value());
  EXPECT_FALSE(decode_server_hello(R"({"kind":"join","protocol":9})").has_value());
}

// Whatever a message is turned into, decoding answers; what it accepts encodes to itself again.
TEST(Messages, DecodingIsTotalOverCutsAndMutations) {
  Prng prng(7);
  std::vector<std::string> bodies;
  for (const ClientMessage& message : client_messages()) bodies.push_back(encode(message));
  for (const std::string& body : bodies) {
    for (size_t cut = 0; cut < body.size(); ++cut) {
      EXPECT_FALSE(decode_client_message(std::string_view(body).substr(0, cut)).has_value());
    }
    for (int round = 0; round < 3000; ++round) {
      std::string mutated = body;
      for (uint64_t n = prng.below(3); n < 3; ++n) {
        const char set[] = "{}[]\",:0129-eE.ntf\\u\xff\x01 ";
        mutated[prng.below(mutated.size())] = set[prng.below(sizeof(set) - 1)];
      }
      const auto decoded = decode_client_message(mutated);
      if (!decoded) continue;
      const auto again = decode_client_message(encode(*decoded));
      ASSERT_TRUE(again.has_value()) << mutated;
      EXPECT_EQ(*again, *decoded) << mutated;
    }
  }
}

}  // namespace
}  // namespace sumcast::control

#include "auth/derive.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace sumcast::auth {
namespace {

std::vector<std::byte> counting(size_t size, unsigned first) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(first + i);
  return bytes;
}

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte b : bytes) {
    text += "0123456789abcdef"[std::to_integer<unsigned>(b) >> 4];
    text += "0123456789abcdef"[std::to_integer<unsigned>(b) & 15];
  }
  return text;
}

TEST(Hkdf, AnswersTestCaseOneOfRfc5869) {
  const std::vector<std::byte> secret(22, std::byte{0x0b});
  std::array<std::byte, 42> out;
  hkdf_sha256(secret, counting(13, 0), counting(10, 0xf0), out);
  EXPECT_EQ(hex(out),
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865");
}

TEST(Hkdf, AnswersTestCaseThreeOfRfc5869WithoutSaltAndInfo) {
  const std::vector<std::byte> secret(22, std::byte{0x0b});
  std::array<std::byte, 42> out;
  hkdf_sha256(secret, {}, {}, out);
  EXPECT_EQ(hex(out),
            "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8");
}

TEST(Derive, EveryPurposeAndFieldGivesAnotherKey) {
  Key job;
  job.bytes.fill(std::byte{0x5a});
  Key other_job = job;
  other_job.bytes[31] = std::byte{0};
  std::set<std::string> keys;
  size_t made = 0;
  const auto note = [&](std::span<const std::byte> bytes) {
    keys.insert(hex(bytes.first(16)));
    ++made;
  };
  for (const Key& key : {job, other_job}) {
    for (const uint32_t incarnation : {0u, 1u, 0x10000u}) {
      for (const uint16_t epoch : {uint16_t{0}, uint16_t{1}, uint16_t{256}}) {
        note(derive_downlink_key(key, Incarnation{incarnation}, Epoch{epoch}).bytes);
        for (const uint16_t rank : {uint16_t{0}, uint16_t{1}, uint16_t{256}}) {
          note(derive_worker_key(key, Incarnation{incarnation}, Epoch{epoch}, Rank{rank}).bytes);
        }
      }
    }
    ControlNonce a{}, b{};
    b[0] = std::byte{1};
    for (const Side side : {Side::kClient, Side::kServer}) {
      note(derive_control_key(key, a, b, side).bytes);
      note(derive_control_key(key, b, a, side).bytes);
    }
  }
  EXPECT_EQ(made, 80u);
  EXPECT_EQ(keys.size(), made);
}

TEST(Derive, IsTheSameOnEveryHost) {
  // Pinned: a change here is a change of the protocol, and old and new programs would not agree.
  Key job;
  job.bytes.fill(std::byte{0x5a});
  EXPECT_EQ(hex(derive_worker_key(job, Incarnation{0x01020304}, Epoch{5}, Rank{6}).bytes),
            "3f7016cb558c3a9e557bf48fe36b7ce9");
  EXPECT_EQ(hex(derive_downlink_key(job, Incarnation{0x01020304}, Epoch{5}).bytes),
            "a6444877ac439399ee17587224720b19");
}

TEST(Random, DoesNotRepeat) {
  EXPECT_NE(random_u64(), random_u64());
  EXPECT_NE(hex(random_key().bytes), hex(random_key().bytes));
  EXPECT_NE(random_nonce(), random_nonce());
}

}  // namespace
}  // namespace sumcast::auth

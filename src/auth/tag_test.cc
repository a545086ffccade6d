#include "auth/tag.h"

#include <gtest/gtest.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/prng.h"

namespace sumcast::auth {
namespace {

using Bytes = std::vector<std::byte>;
using Tag = std::array<std::byte, kTagBytes>;

Bytes from_hex(std::string_view text) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  Bytes bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(digit(text[i]) * 16 + digit(text[i + 1])));
  }
  return bytes;
}

Bytes random_bytes(size_t size, Prng& prng) {
  Bytes bytes(size);
  for (std::byte& b : bytes) b = static_cast<std::byte>(prng.next_u32());
  return bytes;
}

DatagramKey key_of(const Bytes& bytes) {
  DatagramKey key;
  std::copy(bytes.begin(), bytes.end(), key.bytes.begin());
  return key;
}

/// GMAC by another road through OpenSSL, keyed anew for each message.
Bytes reference_gmac(const Bytes& key, const Bytes& nonce, const Bytes& message) {
  EVP_MAC* mac = EVP_MAC_fetch(nullptr, "GMAC", nullptr);
  EVP_MAC_CTX* context = EVP_MAC_CTX_new(mac);
  char cipher[] = "AES-128-GCM";
  Bytes iv = nonce;
  const OSSL_PARAM params[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_CIPHER, cipher, 0),
      OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_IV, iv.data(), iv.size()),
      OSSL_PARAM_construct_end()};
  Bytes tag(16);
  size_t length = 0;
  EXPECT_EQ(
      EVP_MAC_init(context, reinterpret_cast<const unsigned char*>(key.data()), key.size(), params),
      1);
  EXPECT_EQ(EVP_MAC_update(context, reinterpret_cast<const unsigned char*>(message.data()),
                           message.size()),
            1);
  EXPECT_EQ(EVP_MAC_final(context, reinterpret_cast<unsigned char*>(tag.data()), &length, 16), 1);
  EVP_MAC_CTX_free(context);
  EVP_MAC_free(mac);
  return tag;
}

Bytes nonce_of(uint16_t sender, uint64_t counter) {
  Bytes nonce(12);
  nonce[0] = static_cast<std::byte>(sender >> 8);
  nonce[1] = static_cast<std::byte>(sender);
  for (size_t i = 0; i < 8; ++i) nonce[4 + i] = static_cast<std::byte>(counter >> (56 - 8 * i));
  return nonce;
}

Tag sign(Tagger& tagger, uint16_t sender, uint64_t counter, std::span<const std::byte> message,
         size_t header_bytes = 0) {
  Tag tag{};
  tagger.sign(sender, counter, message.first(header_bytes), message.subspan(header_bytes),
              tag.data());
  return tag;
}

Bytes bytes_of(const Tag& tag) { return Bytes(tag.begin(), tag.end()); }

TEST(Tag, TheReferenceAgreesWithNistOnAdditionalDataOnly) {
  // NIST CAVS gcmEncryptExtIV128: IV 96 bits, no plaintext, 128 bits of additional data.
  EXPECT_EQ(reference_gmac(from_hex("77be63708971c4e240d1cb79e8d77feb"),
                           from_hex("e0e00f19fed7ba0136a797f3"),
                           from_hex("7a43ec1d9c0a5a78a0b16533a6213cab")),
            from_hex("209fcc8d3675ed938e9c7166709dd946"));
}

/// Each library that can compute tags.
class TagBy : public testing::TestWithParam<TagLibrary> {
 protected:
  void SetUp() override {
    if (GetParam() == TagLibrary::kIpsecMb && !has_ipsec_mb()) {
      GTEST_SKIP() << "built without ipsec-mb, or the processor lacks AES instructions";
    }
  }
};

std::string name_of(const testing::TestParamInfo<TagLibrary>& library) {
  if (library.param == TagLibrary::kQuickest) return "Quickest";
  return library.param == TagLibrary::kOpenSsl ? "OpenSsl" : "IpsecMb";
}

INSTANTIATE_TEST_SUITE_P(Libraries, TagBy,
                         testing::Values(TagLibrary::kQuickest, TagLibrary::kOpenSsl,
                                         TagLibrary::kIpsecMb),
                         name_of);

TEST_P(TagBy, AnswersTestCaseOneOfTheGcmSpecification) {
  Tagger tagger(DatagramKey{}, GetParam());
  EXPECT_EQ(bytes_of(sign(tagger, 0, 0, {})), from_hex("58e2fccefa7e3061367f1d57a4e7455a"));
}

TEST_P(TagBy, EqualsTheReferenceForAnySizeSplitAndOrderOfCounters) {
  Prng prng(11);
  const Bytes key = random_bytes(16, prng);
  Tagger tagger(key_of(key), GetParam());
  uint64_t counter = 0xFFFFFFFD;  // Steps over the boundary of the low half.
  for (int i = 0; i < 400; ++i) {
    // Runs of consecutive counters, and now and then a jump or another sender.
    counter = prng.chance(0.1) ? prng.next_u64() >> 16 : counter + 1;
    const auto sender = static_cast<uint16_t>(prng.chance(0.05) ? prng.next_u32() : 0x1234);
    const Bytes message = random_bytes(prng.below(1600), prng);
    const size_t header_bytes = prng.below(message.size() + 1);
    const Bytes expected = reference_gmac(key, nonce_of(sender, counter), message);
    EXPECT_EQ(bytes_of(sign(tagger, sender, counter, message, header_bytes)), expected);
    EXPECT_TRUE(tagger.verify(sender, counter, message, expected.data()));
  }
}

TEST_P(TagBy, AnyFlippedBitIsNoticedAndTheNextGoodOneStillPasses) {
  Prng prng(12);
  Tagger tagger(key_of(random_bytes(16, prng)), GetParam());
  Bytes message = random_bytes(131, prng);
  Tag tag = sign(tagger, 7, 99, message, 32);
  for (size_t bit = 0; bit < message.size() * 8; ++bit) {
    message[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_FALSE(tagger.verify(7, 99, message, tag.data())) << "message bit " << bit;
    message[bit / 8] ^= std::byte{1} << (bit % 8);
  }
  for (size_t bit = 0; bit < kTagBytes * 8; ++bit) {
    tag[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_FALSE(tagger.verify(7, 99, message, tag.data())) << "tag bit " << bit;
    tag[bit / 8] ^= std::byte{1} << (bit % 8);
  }
  EXPECT_TRUE(tagger.verify(7, 99, message, tag.data()));
}

TEST_P(TagBy, BelongsToOneSenderCounterAndKey) {
  Prng prng(13);
  Tagger tagger(key_of(random_bytes(16, prng)), GetParam());
  Tagger stranger(key_of(random_bytes(16, prng)), GetParam());
  const Bytes message = random_bytes(1456, prng);
  const Tag tag = sign(tagger, 3, 1000, message);
  EXPECT_TRUE(tagger.verify(3, 1000, message, tag.data()));
  EXPECT_FALSE(tagger.verify(2, 1000, message, tag.data()));
  EXPECT_FALSE(tagger.verify(3, 1001, message, tag.data()));
  EXPECT_FALSE(tagger.verify(3, 1000 + (uint64_t{1} << 32), message, tag.data()));
  EXPECT_FALSE(tagger.verify(3, 1000, std::span(message).first(1455), tag.data()));
  EXPECT_FALSE(stranger.verify(3, 1000, message, tag.data()));
}

TEST_P(TagBy, AMovedTaggerGoesOnWhereItWas) {
  Prng prng(14);
  const Bytes key = random_bytes(16, prng);
  Tagger first(key_of(key), GetParam());
  sign(first, 1, 5, {});
  Tagger second(std::move(first));
  const Bytes message = random_bytes(64, prng);
  EXPECT_EQ(bytes_of(sign(second, 1, 6, message)), reference_gmac(key, nonce_of(1, 6), message));
}

}  // namespace
}  // namespace sumcast::auth

#include "auth/control_seal.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include <algorithm>
#include <array>

#include "base/assert.h"

namespace sumcast::auth {
namespace {

Side other(Side side) { return side == Side::kClient ? Side::kServer : Side::kClient; }

EVP_MAC* hmac() {
  static EVP_MAC* const mac = EVP_MAC_fetch(nullptr, "HMAC", nullptr);
  SUMCAST_ASSERT(mac != nullptr);
  return mac;
}

}  // namespace

void FrameTag::Deleter::operator()(EVP_MAC_CTX* context) const { EVP_MAC_CTX_free(context); }

void FrameTag::add(std::span<const std::byte> part) {
  const bool done =
      EVP_MAC_update(context_.get(), reinterpret_cast<const unsigned char*>(part.data()),
                     part.size()) == 1;
  SUMCAST_ASSERT(done);
}

SealTag FrameTag::finish() {
  std::array<unsigned char, 32> full;
  size_t length = 0;
  const bool done = EVP_MAC_final(context_.get(), full.data(), &length, full.size()) == 1;
  SUMCAST_ASSERT(done);
  SUMCAST_ASSERT(length == full.size());
  SealTag tag;
  std::transform(full.begin(), full.begin() + kSealBytes, tag.begin(),
                 [](unsigned char c) { return std::byte{c}; });
  return tag;
}

ControlSeal::ControlSeal(const Key& job, const ControlNonce& client, const ControlNonce& server,
                         Side side)
    : send_{derive_control_key(job, client, server, side), side},
      receive_{derive_control_key(job, client, server, other(side)), other(side)} {}

// The context is made anew for each frame: simple is worth more than what that costs.
FrameTag ControlSeal::Lane::begin() const {
  std::array<unsigned char, 9> prefix;
  prefix[0] = static_cast<unsigned char>(sender);
  for (size_t i = 0; i < 8; ++i) {
    prefix[1 + i] = static_cast<unsigned char>(sequence >> (56 - 8 * i));
  }
  FrameTag::Context context(EVP_MAC_CTX_new(hmac()));
  SUMCAST_ASSERT(context != nullptr);
  char digest[] = "SHA256";
  const OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
                               OSSL_PARAM_construct_end()};
  const bool done =
      EVP_MAC_init(context.get(), reinterpret_cast<const unsigned char*>(key.bytes.data()),
                   key.bytes.size(), params) == 1;
  SUMCAST_ASSERT(done);
  FrameTag frame(std::move(context));
  frame.add(std::as_bytes(std::span(prefix)));
  return frame;
}

SealTag ControlSeal::seal(FrameTag frame) {
  const SealTag tag = frame.finish();
  ++send_.sequence;
  return tag;
}

SealTag ControlSeal::seal(std::span<const std::byte> body) {
  FrameTag frame = begin_seal();
  frame.add(body);
  return seal(std::move(frame));
}

bool ControlSeal::open(FrameTag frame, std::span<const std::byte, 16> tag) {
  const SealTag expected = frame.finish();
  if (CRYPTO_memcmp(expected.data(), tag.data(), kSealBytes) != 0) return false;
  ++receive_.sequence;
  return true;
}

bool ControlSeal::open(std::span<const std::byte> body, std::span<const std::byte, 16> tag) {
  FrameTag frame = begin_open();
  frame.add(body);
  return open(std::move(frame), tag);
}

}  // namespace sumcast::auth

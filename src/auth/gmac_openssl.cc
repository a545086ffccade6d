// GMAC by OpenSSL.
//
// The trick is in what is *not* done per datagram. Hashing 1,456 bytes takes about 100 ns; a
// plain use of OpenSSL's EVP adds 150 ns of parameter passing around it. Two contexts, keyed once,
// avoid half of that:
//  - signing: GCM's own nonce generator steps the counter, and one call both fetches a tag and
//    arms the context for the next counter. Any other order of counters works too, only slower.
//  - verifying: one call sets nonce and expected tag; OpenSSL compares in constant time.
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include <array>

#include "auth/gmac.h"
#include "auth/tag.h"
#include "base/assert.h"

namespace sumcast::auth {
namespace {

struct ContextDeleter {
  void operator()(EVP_CIPHER_CTX* context) const noexcept {
    EVP_CIPHER_CTX_free(context);  // Wipes the key schedule.
  }
};
using Context = std::unique_ptr<EVP_CIPHER_CTX, ContextDeleter>;

// Fetching goes through the provider's tables under a lock, so it is done once a process. The
// cipher is kept until the process ends: taggers may outlive any owner we could name.
const EVP_CIPHER* gcm_cipher() {
  static const EVP_CIPHER* const cipher = EVP_CIPHER_fetch(nullptr, "AES-128-GCM", nullptr);
  SUMCAST_ASSERT(cipher != nullptr);
  return cipher;
}

/// Adds bytes to the hash. An empty span must not reach EVP_Cipher, to which null means "finish".
bool hash(EVP_CIPHER_CTX* context, std::span<const std::byte> bytes) {
  if (bytes.empty()) return true;
  return EVP_Cipher(context, nullptr, reinterpret_cast<const unsigned char*>(bytes.data()),
                    static_cast<unsigned>(bytes.size())) >= 0;
}

/// Ends the hash; for a verifying context, whether the tag agrees.
bool finish(EVP_CIPHER_CTX* context) { return EVP_Cipher(context, nullptr, nullptr, 0) >= 0; }

Context make_context(const DatagramKey& key, bool signs) {
  Context context(EVP_CIPHER_CTX_new());
  SUMCAST_ASSERT(context != nullptr);
  const int keyed = EVP_CipherInit_ex2(context.get(), gcm_cipher(),
                                       reinterpret_cast<const unsigned char*>(key.bytes.data()),
                                       nullptr, signs ? 1 : 0, nullptr);
  SUMCAST_ASSERT(keyed == 1);
  // Length -1 hands over a whole nonce and switches on the calls that step or set it later.
  std::array<unsigned char, kNonceBytes> zero{};
  const int stepping =
      EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_SET_IV_FIXED, -1, zero.data());
  SUMCAST_ASSERT(stepping == 1);
  return context;
}

class OpenSslGmac final : public Gmac {
 public:
  explicit OpenSslGmac(const DatagramKey& key)
      : signer_(make_context(key, true)), verifier_(make_context(key, false)) {
    arm(0, 0);
  }

  void sign(uint16_t sender, uint64_t counter, std::span<const std::byte> header,
            std::span<const std::byte> payload, std::byte* tag_out) override {
    if (sender != armed_sender_ || counter != armed_counter_) arm(sender, counter);
    EVP_CIPHER_CTX* const context = signer_.get();
    const bool hashed = hash(context, header) && hash(context, payload) && finish(context);
    SUMCAST_ASSERT(hashed);
    // The provider answers parameters in its own order, the tag before the step to the next nonce.
    std::array<unsigned char, 8> ignored;
    OSSL_PARAM wanted[] = {
        OSSL_PARAM_construct_octet_string(OSSL_CIPHER_PARAM_AEAD_TAG, tag_out, kTagBytes),
        OSSL_PARAM_construct_octet_string(OSSL_CIPHER_PARAM_AEAD_TLS1_GET_IV_GEN, ignored.data(),
                                          ignored.size()),
        OSSL_PARAM_construct_end()};
    const int fetched = EVP_CIPHER_CTX_get_params(context, wanted);
    SUMCAST_ASSERT(fetched == 1);
    armed_counter_ = counter + 1;
  }

  bool verify(uint16_t sender, uint64_t counter, std::span<const std::byte> header_and_payload,
              const std::byte* tag) override {
    const Nonce nonce(sender, counter);
    const OSSL_PARAM given[] = {
        OSSL_PARAM_construct_octet_string(OSSL_CIPHER_PARAM_AEAD_TAG, const_cast<std::byte*>(tag),
                                          kTagBytes),
        OSSL_PARAM_construct_octet_string(OSSL_CIPHER_PARAM_AEAD_TLS1_SET_IV_INV,
                                          const_cast<unsigned char*>(nonce.bytes()), kNonceBytes),
        OSSL_PARAM_construct_end()};
    EVP_CIPHER_CTX* const context = verifier_.get();
    const int set = EVP_CIPHER_CTX_set_params(context, given);
    SUMCAST_ASSERT(set == 1);
    return hash(context, header_and_payload) && finish(context);
  }

 private:
  void arm(uint16_t sender, uint64_t counter) {
    const Nonce nonce(sender, counter);
    const int set = EVP_CIPHER_CTX_ctrl(signer_.get(), EVP_CTRL_GCM_SET_IV_FIXED, -1,
                                        const_cast<unsigned char*>(nonce.bytes()));
    SUMCAST_ASSERT(set == 1);
    std::array<unsigned char, 8> ignored;
    const int armed =
        EVP_CIPHER_CTX_ctrl(signer_.get(), EVP_CTRL_GCM_IV_GEN, ignored.size(), ignored.data());
    SUMCAST_ASSERT(armed == 1);
    armed_sender_ = sender;
    armed_counter_ = counter;
  }

  Context signer_;
  Context verifier_;
  // What the signer's context is armed for: it can tag this pair without further set-up.
  uint16_t armed_sender_ = 0;
  uint64_t armed_counter_ = 0;
};

}  // namespace

std::unique_ptr<Gmac> make_openssl_gmac(const DatagramKey& key) {
  return std::make_unique<OpenSslGmac>(key);
}

}  // namespace sumcast::auth

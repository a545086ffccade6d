// GMAC by Intel's multi-buffer crypto for IPsec (Debian: libipsec-mb-dev), one datagram at a time.
#include "auth/gmac.h"

#ifdef SUMCAST_HAVE_IPSEC_MB

#include <intel-ipsec-mb.h>
#include <openssl/crypto.h>

#include <algorithm>
#include <array>

#include "auth/tag.h"

namespace sumcast::auth {
namespace {

const uint8_t* bytes_of(std::span<const std::byte> span) {
  return reinterpret_cast<const uint8_t*>(span.data());
}

/// The library's functions for this processor; null if it has no AES instructions. Kept until the
/// process ends: taggers may outlive any owner we could name.
IMB_MGR* manager() {
  static IMB_MGR* const instance = []() -> IMB_MGR* {
    IMB_MGR* made = alloc_mb_mgr(0);
    if (made == nullptr) return nullptr;
    IMB_ARCH arch = IMB_ARCH_NONE;
    init_mb_mgr_auto(made, &arch);
    // Without AES instructions the library emulates them, slowly: OpenSSL is better then.
    if (arch == IMB_ARCH_NONE || arch == IMB_ARCH_NOAESNI) {
      free_mb_mgr(made);
      return nullptr;
    }
    return made;
  }();
  return instance;
}

class IpsecGmac final : public Gmac {
 public:
  IpsecGmac(IMB_MGR* manager, const DatagramKey& key) : manager_(manager) {
    IMB_AES128_GCM_PRE(manager_, key.bytes.data(), &key_);
  }
  ~IpsecGmac() override { wipe(std::as_writable_bytes(std::span(&key_, 1))); }

  void sign(uint16_t sender, uint64_t counter, std::span<const std::byte> header,
            std::span<const std::byte> payload, std::byte* tag_out) override {
    const Nonce nonce(sender, counter);
    auto* const out = reinterpret_cast<uint8_t*>(tag_out);
    if (payload.empty()) return tag(nonce, header, out);
    if (const size_t total = header.size() + payload.size(); total <= kJoined) {
      std::array<std::byte, kJoined> joined;
      std::ranges::copy(header, joined.begin());
      std::ranges::copy(payload, joined.begin() + static_cast<ptrdiff_t>(header.size()));
      return tag(nonce, std::span(joined).first(total), out);
    }
    gcm_context_data context;
    IMB_AES128_GMAC_INIT(manager_, &key_, &context, nonce.bytes(), kNonceBytes);
    IMB_AES128_GMAC_UPDATE(manager_, &key_, &context, bytes_of(header), header.size());
    IMB_AES128_GMAC_UPDATE(manager_, &key_, &context, bytes_of(payload), payload.size());
    IMB_AES128_GMAC_FINALIZE(manager_, &key_, &context, out, kTagBytes);
  }

  bool verify(uint16_t sender, uint64_t counter, std::span<const std::byte> header_and_payload,
              const std::byte* expected) override {
    std::array<uint8_t, kTagBytes> made;
    tag(Nonce(sender, counter), header_and_payload, made.data());
    return CRYPTO_memcmp(made.data(), expected, kTagBytes) == 0;
  }

 private:
  /// Up to so many bytes are copied into one piece: one call is then quicker than four.
  static constexpr size_t kJoined = 256;

  /// GCM of nothing, with `message` as additional data: GMAC.
  void tag(const Nonce& nonce, std::span<const std::byte> message, uint8_t* out) {
    gcm_context_data context;
    IMB_AES128_GCM_ENC(manager_, &key_, &context, nullptr, nullptr, 0, nonce.bytes(),
                       bytes_of(message), message.size(), out, kTagBytes);
  }

  IMB_MGR* manager_;
  gcm_key_data key_;
};

}  // namespace

std::unique_ptr<Gmac> make_ipsec_gmac(const DatagramKey& key) {
  IMB_MGR* const functions = manager();
  if (functions == nullptr) return nullptr;
  return std::make_unique<IpsecGmac>(functions, key);
}

}  // namespace sumcast::auth

#else

namespace sumcast::auth {

std::unique_ptr<Gmac> make_ipsec_gmac(const DatagramKey&) { return nullptr; }

}  // namespace sumcast::auth

#endif

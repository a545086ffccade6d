#include "auth/tag.h"

#include "auth/gmac.h"
#include "base/assert.h"

namespace sumcast::auth {
namespace {

std::unique_ptr<Gmac> make_gmac(const DatagramKey& key, TagLibrary library) {
  if (library == TagLibrary::kOpenSsl) return make_openssl_gmac(key);
  std::unique_ptr<Gmac> gmac = make_ipsec_gmac(key);
  if (library == TagLibrary::kIpsecMb) {
    SUMCAST_ASSERT(gmac != nullptr);
    return gmac;
  }
  return gmac ? std::move(gmac) : make_openssl_gmac(key);
}

}  // namespace

bool has_ipsec_mb() { return make_ipsec_gmac(DatagramKey{}) != nullptr; }

Tagger::Tagger(const DatagramKey& key, TagLibrary library) : gmac_(make_gmac(key, library)) {}
Tagger::Tagger(Tagger&&) noexcept = default;
Tagger& Tagger::operator=(Tagger&&) noexcept = default;
Tagger::~Tagger() = default;

void Tagger::sign(uint16_t sender, uint64_t counter, std::span<const std::byte> header,
                  std::span<const std::byte> payload, std::byte* tag_out) {
  gmac_->sign(sender, counter, header, payload, tag_out);
}

bool Tagger::verify(uint16_t sender, uint64_t counter,
                    std::span<const std::byte> header_and_payload, const std::byte* tag) {
  return gmac_->verify(sender, counter, header_and_payload, tag);
}

}  // namespace sumcast::auth

#include "auth/derive.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include <memory>
#include <string_view>

#include "base/assert.h"

namespace sumcast::auth {
namespace {

constexpr std::string_view kWorkerLabel = "sumcast 1 worker datagrams";
constexpr std::string_view kDownlinkLabel = "sumcast 1 downlink datagrams";
constexpr std::string_view kControlLabel = "sumcast 1 control frames";

/// Label, zero byte, then fields of fixed width.
class Info {
 public:
  explicit Info(std::string_view label) {
    append(std::as_bytes(std::span(label)));
    append_number(uint8_t{0});
  }

  void append(std::span<const std::byte> bytes) {
    SUMCAST_ASSERT(size_ + bytes.size() <= bytes_.size());
    std::copy(bytes.begin(), bytes.end(), bytes_.begin() + static_cast<ptrdiff_t>(size_));
    size_ += bytes.size();
  }
  template <typename Integer>
  void append_number(Integer value) {
    std::array<std::byte, sizeof(Integer)> bytes{};
    for (size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<std::byte>(value >> (8 * (bytes.size() - 1 - i)));
    }
    append(bytes);
  }
  std::span<const std::byte> bytes() const { return std::span(bytes_).first(size_); }

 private:
  std::array<std::byte, 128> bytes_{};
  size_t size_ = 0;
};

// HKDF's salt is optional where the secret is uniformly random, which a key file's is.
template <size_t kBytes>
Secret<kBytes> derive(const Key& job, const Info& info) {
  Secret<kBytes> out;
  hkdf_sha256(job.bytes, {}, info.bytes(), out.bytes);
  return out;
}

OSSL_PARAM octets(const char* name, std::span<const std::byte> bytes) {
  return OSSL_PARAM_construct_octet_string(name, const_cast<std::byte*>(bytes.data()),
                                           bytes.size());
}

struct KdfDeleter {
  void operator()(EVP_KDF* kdf) const { EVP_KDF_free(kdf); }
  void operator()(EVP_KDF_CTX* context) const { EVP_KDF_CTX_free(context); }
};

}  // namespace

void hkdf_sha256(std::span<const std::byte> secret, std::span<const std::byte> salt,
                 std::span<const std::byte> info, std::span<std::byte> out) {
  const std::unique_ptr<EVP_KDF, KdfDeleter> kdf(EVP_KDF_fetch(nullptr, "HKDF", nullptr));
  SUMCAST_ASSERT(kdf != nullptr);
  const std::unique_ptr<EVP_KDF_CTX, KdfDeleter> context(EVP_KDF_CTX_new(kdf.get()));
  SUMCAST_ASSERT(context != nullptr);
  std::array<OSSL_PARAM, 5> params{};
  size_t count = 0;
  char digest[] = "SHA256";
  params[count++] = OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0);
  params[count++] = octets(OSSL_KDF_PARAM_KEY, secret);
  if (!salt.empty()) params[count++] = octets(OSSL_KDF_PARAM_SALT, salt);
  if (!info.empty()) params[count++] = octets(OSSL_KDF_PARAM_INFO, info);
  params[count] = OSSL_PARAM_construct_end();
  const int derived = EVP_KDF_derive(context.get(), reinterpret_cast<unsigned char*>(out.data()),
                                     out.size(), params.data());
  SUMCAST_ASSERT(derived == 1);
}

ControlNonce random_nonce() {
  ControlNonce nonce;
  fill_random(nonce);
  return nonce;
}

DatagramKey derive_worker_key(const Key& job, Incarnation incarnation, Epoch epoch, Rank rank) {
  Info info(kWorkerLabel);
  info.append_number(incarnation.value);
  info.append_number(epoch.value);
  info.append_number(rank.value);
  return derive<16>(job, info);
}

DatagramKey derive_downlink_key(const Key& job, Incarnation incarnation, Epoch epoch) {
  Info info(kDownlinkLabel);
  info.append_number(incarnation.value);
  info.append_number(epoch.value);
  return derive<16>(job, info);
}

Key derive_control_key(const Key& job, const ControlNonce& client, const ControlNonce& server,
                       Side sender) {
  Info info(kControlLabel);
  info.append(client);
  info.append(server);
  info.append_number(static_cast<uint8_t>(sender));
  return derive<32>(job, info);
}

}  // namespace sumcast::auth

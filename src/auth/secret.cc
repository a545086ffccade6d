#include "auth/secret.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include "base/assert.h"

namespace sumcast::auth {

void wipe(std::span<std::byte> bytes) noexcept { OPENSSL_cleanse(bytes.data(), bytes.size()); }

// A machine whose generator fails cannot make keys at all; going on with predictable ones would
// be worse than stopping, so failure is an assertion and not an error to handle.
Key random_key() {
  Key key;
  const int filled = RAND_priv_bytes(reinterpret_cast<unsigned char*>(key.bytes.data()),
                                     static_cast<int>(key.bytes.size()));
  SUMCAST_ASSERT(filled == 1);
  return key;
}

uint64_t random_u64() {
  uint64_t value = 0;
  fill_random(std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

void fill_random(std::span<std::byte> out) {
  const int filled =
      RAND_bytes(reinterpret_cast<unsigned char*>(out.data()), static_cast<int>(out.size()));
  SUMCAST_ASSERT(filled == 1);
}

}  // namespace sumcast::auth

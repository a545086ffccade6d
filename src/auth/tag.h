// The tag of a datagram: 16 bytes that only a holder of the sender's key can make.
//
// AES-128-GMAC, that is GCM with everything as additional data and nothing encrypted: gradients
// need integrity, not secrecy, and hashing alone is the cheaper half. It does not know what a
// header contains; it takes bytes.
//
//   nonce, 12 bytes = sender, 2 | zeros, 2 | counter, 8        (network byte order)
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "auth/secret.h"

namespace sumcast::auth {

class Gmac;

inline constexpr size_t kTagBytes = 16;

/// Who computes them; the tags are the same.
enum class TagLibrary : uint8_t { kQuickest, kOpenSsl, kIpsecMb };

/// True if this build and this processor have Intel's ipsec-mb.
bool has_ipsec_mb();

/// Makes and checks tags under one key. For one thread; movable, not copyable.
class Tagger {
 public:
  /// @param library  kIpsecMb only where has_ipsec_mb().
  explicit Tagger(const DatagramKey& key, TagLibrary library = TagLibrary::kQuickest);
  Tagger(Tagger&&) noexcept;
  Tagger& operator=(Tagger&&) noexcept;
  ~Tagger();

  /// Tags `header` followed by `payload`; either may be empty, neither is modified.
  ///
  /// @param sender   who signs: a rank or a shard, as the receiver will name it.
  /// @param counter  never used twice for one key and sender: a second use gives the key away.
  ///                 Consecutive values are the fast case.
  /// @param tag_out  kTagBytes bytes, owned by the caller; must not lie inside header or payload.
  void sign(uint16_t sender, uint64_t counter, std::span<const std::byte> header,
            std::span<const std::byte> payload, std::byte* tag_out);

  /// True if `tag` (kTagBytes bytes) was made by a holder of the key for exactly these bytes,
  /// sender and counter. `header_and_payload` is what both spans of `sign` were, in one piece.
  [[nodiscard]] bool verify(uint16_t sender, uint64_t counter,
                            std::span<const std::byte> header_and_payload, const std::byte* tag);

 private:
  std::unique_ptr<Gmac> gmac_;
};

}  // namespace sumcast::auth

// Turns a fuzzer's bytes into choices. When they are used up every choice is 0, so that any input
// means something and shorter inputs mean less.
#pragma once

#include <cstdint>
#include <span>

namespace sumcast::fuzz {

class ByteSource {
 public:
  explicit ByteSource(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  bool empty() const { return bytes_.empty(); }
  uint8_t u8() {
    if (bytes_.empty()) return 0;
    const uint8_t value = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return value;
  }
  uint32_t u32() {
    uint32_t value = 0;
    for (int i = 0; i < 4; ++i) value = value << 8 | u8();
    return value;
  }
  /// In [0, bound), 0 < bound <= 256.
  uint32_t below(uint32_t bound) { return u8() % bound; }
  /// Mostly `likely` or close to it; now and then anything.
  uint32_t near(uint32_t likely) {
    const uint8_t choice = u8();
    if (choice < 192) return likely;
    if (choice < 248) return likely + static_cast<uint32_t>(choice % 7) - 3u;
    return u32();
  }
  std::span<const uint8_t> rest() const { return bytes_; }

 private:
  std::span<const uint8_t> bytes_;
};

}  // namespace sumcast::fuzz

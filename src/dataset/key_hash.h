// How names become keys: u64, the same on every machine, in every run and for training, sampling
// and benches alike.
//
//   hash_bytes(text)         FNV-1a over the bytes, then mixed: FNV alone leaves the upper bits of
//                            short texts nearly constant, and shards are cut from the upper bits.
//   field_key(field, hash)   the same value in two columns is two keys: the field is mixed in.
//   pair_key(left, right)    two neighbouring words; order counts.
//
// 64 bits make collisions a matter of chance: among 10^8 distinct names, 3 in 10,000 for one at
// all.
#pragma once

#include <cstdint>
#include <string_view>

namespace sumcast::dataset {

/// SplitMix64's finaliser (Steele, Lea, Flood 2014): a bijection of u64, each input bit reaching
/// every output bit.
constexpr uint64_t mix64(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

/// FNV-1a (Fowler, Noll, Vo), 64 bits, and mix64 over it.
constexpr uint64_t hash_bytes(std::string_view text) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (const char c : text) {
    hash = (hash ^ static_cast<uint8_t>(c)) * 0x00000100000001B3u;
  }
  return mix64(hash);
}

/// A value of field (column) `field`. Distinct values of one field give distinct keys.
constexpr uint64_t field_key(uint32_t field, uint64_t value) {
  return mix64(value ^ mix64(uint64_t{field} + 0x9E3779B97F4A7C15u));
}

/// Two neighbouring words, given by their hashes.
constexpr uint64_t pair_key(uint64_t left, uint64_t right) {
  return mix64(mix64(left + 0x9E3779B97F4A7C15u) ^ right);
}

}  // namespace sumcast::dataset

// Numbers and arrays as bytes, for checkpoints: written in one order, read in the same, with a hash
// over all of it at the end. Little endian, no padding, no alignment. A reader takes nothing on
// trust: a short, long or altered text is an error, and lengths are checked before memory is made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sumcast::pipeline {

class CheckpointWriter {
 public:
  void number(uint64_t value);
  void real(double value);
  void text(std::string_view value);
  void floats(std::span<const float> values);
  /// All that was written, and its hash.
  std::vector<std::byte> finish() &&;

 private:
  void bytes(const void* data, size_t count);
  std::vector<std::byte> out_;
};

/// After the first failure every read gives zeros; ask `error` at the end.
class CheckpointReader {
 public:
  /// `bytes` outlives the reader.
  explicit CheckpointReader(std::span<const std::byte> bytes);

  uint64_t number();
  double real();
  std::string text();
  /// As many as were written; kept only if `count` matches.
  std::vector<float> floats(size_t count);
  /// Refuses what follows, with `why`.
  void refuse(std::string why);
  bool failed() const { return !error_.empty(); }
  /// Checks that all was read, too.
  Result<void> finish();

 private:
  bool take(void* to, size_t count);
  std::span<const std::byte> left_;
  std::string error_;
};

}  // namespace sumcast::pipeline

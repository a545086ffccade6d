// Files that are there whole or not at all, whenever the machine or the process dies.
//
// A file is written beside its place ("NAME.part"), forced to the disk, and renamed; then its
// directory is forced to the disk too. Whoever reads NAME reads all of the old text or all of the
// new one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sumcast::sparse {

class DurableFile {
 public:
  /// Begins a file that will be `path`. kSystem: it cannot be made there.
  static Result<DurableFile> create(const std::string& path);
  DurableFile(DurableFile&& other) noexcept;
  DurableFile& operator=(DurableFile&&) = delete;
  /// Removes what was not committed.
  ~DurableFile();

  Result<void> write(std::span<const std::byte> bytes);
  /// The file has its name now. Once, last.
  Result<void> commit();
  /// Of all that was written, once that was committed.
  uint64_t bytes() const { return bytes_; }
  uint32_t crc() const { return crc_; }

 private:
  DurableFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  std::string draft() const { return path_ + ".part"; }
  Result<void> flush();

  std::string path_;
  int fd_ = -1;
  std::vector<std::byte> buffer_;
  uint64_t bytes_ = 0;
  uint32_t crc_ = 0;
};

/// CRC-32 (zlib's) of bytes that follow others of which it was `before`.
uint32_t crc_of(std::span<const std::byte> bytes, uint32_t before = 0);

/// Reads from the front on. Its size is known before anything is read.
class WholeFile {
 public:
  /// kUnavailable: there is no such file; kSystem: it cannot be read.
  static Result<WholeFile> open(const std::string& path);
  WholeFile(WholeFile&& other) noexcept;
  WholeFile& operator=(WholeFile&&) = delete;
  ~WholeFile();

  uint64_t bytes() const { return bytes_; }
  /// The next `into.size()` bytes. kInvalidArgument: it ends before.
  Result<void> read(std::span<std::byte> into);
  /// Of all that was read so far.
  uint32_t crc() const { return crc_; }

 private:
  WholeFile(std::string path, int fd, uint64_t bytes)
      : path_(std::move(path)), fd_(fd), bytes_(bytes) {}

  std::string path_;
  int fd_ = -1;
  uint64_t bytes_ = 0;
  uint32_t crc_ = 0;
};

}  // namespace sumcast::sparse

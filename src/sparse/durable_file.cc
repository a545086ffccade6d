#include "sparse/durable_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace sumcast::sparse {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;

Result<void> system_error(const std::string& path, const char* what) {
  return fail(ErrorCode::kSystem, fmt::format("{}: {}: {}", path, what, std::strerror(errno)));
}

/// A rename is on the disk when its directory is.
bool sync_directory_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool synced = ::fsync(fd) == 0;
  ::close(fd);
  return synced;
}

}  // namespace

uint32_t crc_of(std::span<const std::byte> bytes, uint32_t before) {
  return static_cast<uint32_t>(
      ::crc32_z(before, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

Result<DurableFile> DurableFile::create(const std::string& path) {
  const std::string draft = path + ".part";
  const int fd = ::open(draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return fail(system_error(draft, "cannot be made").error());
  return DurableFile(path, fd);
}

DurableFile::DurableFile(DurableFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      buffer_(std::move(other.buffer_)),
      bytes_(other.bytes_),
      crc_(other.crc_) {}

DurableFile::~DurableFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(draft().c_str());
}

Result<void> DurableFile::write(std::span<const std::byte> bytes) {
  bytes_ += bytes.size();
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  return buffer_.size() < kBufferBytes ? Result<void>() : flush();
}

Result<void> DurableFile::flush() {
  crc_ = crc_of(buffer_, crc_);
  std::span<const std::byte> left = buffer_;
  while (!left.empty()) {
    const ssize_t wrote = ::write(fd_, left.data(), left.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return system_error(draft(), "cannot be written");
    left = left.subspan(static_cast<size_t>(wrote));
  }
  buffer_.clear();
  return {};
}

Result<void> DurableFile::commit() {
  if (auto flushed = flush(); !flushed) return flushed;
  if (::fsync(fd_) != 0) return system_error(draft(), "cannot be written to the disk");
  if (::rename(draft().c_str(), path_.c_str()) != 0) {
    return system_error(path_, "cannot be renamed into its place");
  }
  ::close(std::exchange(fd_, -1));
  if (!sync_directory_of(path_)) return system_error(path_, "its directory cannot be synced");
  return {};
}

Result<WholeFile> WholeFile::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    const ErrorCode code = errno == ENOENT ? ErrorCode::kUnavailable : ErrorCode::kSystem;
    return fail(code, fmt::format("{}: {}", path, std::strerror(errno)));
  }
  WholeFile file(path, fd, 0);
  struct stat status {};
  if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    return fail(ErrorCode::kSystem, fmt::format("{}: not a file that can be read", path));
  }
  file.bytes_ = static_cast<uint64_t>(status.st_size);
  return file;
}

WholeFile::WholeFile(WholeFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      bytes_(other.bytes_),
      crc_(other.crc_) {}

WholeFile::~WholeFile() {
  if (fd_ >= 0) ::close(fd_);
}

Result<void> WholeFile::read(std::span<std::byte> into) {
  std::span<std::byte> left = into;
  while (!left.empty()) {
    const ssize_t got = ::read(fd_, left.data(), left.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error(path_, "cannot be read");
    if (got == 0) return fail(ErrorCode::kInvalidArgument, path_ + ": it is cut short");
    left = left.subspan(static_cast<size_t>(got));
  }
  crc_ = crc_of(into, crc_);
  return {};
}

}  // namespace sumcast::sparse

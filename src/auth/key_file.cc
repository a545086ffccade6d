#include "auth/key_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

namespace sumcast::auth {
namespace {

constexpr size_t kDigits = 2 * sizeof(Key::bytes);
/// Far above 64 digits with white space; keeps a mistaken path (a core dump, say) out of memory.
constexpr size_t kFileBytesMax = 1024;
constexpr std::string_view kSpace = " \t\r\n";

/// Closes a descriptor when it goes out of scope.
struct File {
  int fd;
  explicit File(int descriptor) : fd(descriptor) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (fd >= 0) ::close(fd);
  }
};

std::optional<unsigned> hex_value(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a' + 10);
  if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A' + 10);
  return std::nullopt;
}

std::string show(char c) {
  if (c > ' ' && c < 0x7F) return fmt::format("'{}'", c);
  return fmt::format("byte 0x{:02x}", static_cast<unsigned char>(c));
}

Result<void> check_access(int fd, const std::string& path) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) {
    return fail(ErrorCode::kSystem,
                fmt::format("cannot inspect key file {}: {}", path, std::strerror(errno)));
  }
  if (!S_ISREG(status.st_mode)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("key file {} is not a regular file; name a file that holds {} hex "
                            "digits",
                            path, kDigits));
  }
  // What service managers and Kubernetes hand a process that is not root belongs to root and is
  // readable by a group of the process alone.
  const bool handed_out = status.st_uid == 0 && ::geteuid() != 0;
  const mode_t refused = handed_out ? S_IWGRP | S_IXGRP | S_IRWXO : S_IRWXG | S_IRWXO;
  if ((status.st_mode & refused) != 0) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("key file {} is open to other users (mode {:04o}); run 'chmod 600 {}'",
                            path, status.st_mode & 07777u, path));
  }
  return {};
}

/// Reads up to the size of `buffer`; fewer bytes mean that the file ended.
Result<size_t> read_up_to(int fd, std::span<std::byte> buffer) {
  size_t filled = 0;
  while (filled < buffer.size()) {
    const ssize_t got = ::read(fd, buffer.data() + filled, buffer.size() - filled);
    if (got == 0) break;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return fail(ErrorCode::kSystem, fmt::format("cannot be read: {}", std::strerror(errno)));
    }
    filled += static_cast<size_t>(got);
  }
  return filled;
}

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t wrote = ::write(fd, text.data(), text.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return false;
    text.remove_prefix(static_cast<size_t>(wrote));
  }
  return ::fsync(fd) == 0;
}

}  // namespace

Result<Key> parse_key(std::string_view text) {
  const size_t first = std::min(text.find_first_not_of(kSpace), text.size());
  const size_t end = text.find_last_not_of(kSpace) + 1;  // npos + 1 is 0: nothing but space.
  const std::string_view digits = first < end ? text.substr(first, end - first) : "";
  Key key;
  for (size_t i = 0; i < digits.size(); ++i) {
    const std::optional<unsigned> value = hex_value(digits[i]);
    if (!value) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} at position {} is not a hex digit; a key is {} of them",
                              show(digits[i]), first + i + 1, kDigits));
    }
    if (i < kDigits) key.bytes[i / 2] |= static_cast<std::byte>(*value << (i % 2 == 0 ? 4 : 0));
  }
  if (digits.size() != kDigits) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("holds {} hex digits instead of {}; make one with 'sumcast keygen "
                            "FILE'",
                            digits.size(), kDigits));
  }
  return key;
}

std::string key_text(const Key& key) {
  std::string text;
  text.reserve(kDigits);
  for (const std::byte b : key.bytes) {
    fmt::format_to(std::back_inserter(text), "{:02x}", std::to_integer<unsigned>(b));
  }
  return text;
}

Result<Key> read_key_file(const std::string& path) {
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.fd < 0) {
    const char* advice = errno == ENOENT ? "; make one with 'sumcast keygen FILE' and copy it to "
                                           "every host, mode 600"
                                         : "";
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("cannot open key file {}: {}{}", path, std::strerror(errno), advice));
  }
  if (auto access = check_access(file.fd, path); !access) return fail(std::move(access.error()));
  Secret<kFileBytesMax> text;
  const Result<size_t> length = read_up_to(file.fd, text.bytes);
  if (!length) return fail(length.error().within("key file " + path));
  if (*length == text.bytes.size()) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("key file {} is {} bytes or longer; it should hold {} hex digits and no more",
                    path, kFileBytesMax, kDigits));
  }
  Result<Key> key = parse_key({reinterpret_cast<const char*>(text.bytes.data()), *length});
  if (!key) return fail(key.error().within("key file " + path));
  return key;
}

Result<void> write_key_file(const std::string& path) {
  const File file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (file.fd < 0 && errno == EEXIST) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("key file {} exists already; it is left as it is, choose another name "
                            "or remove it first",
                            path));
  }
  if (file.fd < 0) {
    return fail(ErrorCode::kSystem,
                fmt::format("cannot create key file {}: {}", path, std::strerror(errno)));
  }
  std::string text = key_text(random_key()) + "\n";
  // A umask can only have taken bits away; the owner's must be there.
  const bool written = ::fchmod(file.fd, 0600) == 0 && write_all(file.fd, text);
  const int reason = errno;
  wipe(std::as_writable_bytes(std::span(text)));
  if (!written) {
    ::unlink(path.c_str());
    return fail(ErrorCode::kSystem,
                fmt::format("cannot write key file {}: {}", path, std::strerror(reason)));
  }
  return {};
}

}  // namespace sumcast::auth

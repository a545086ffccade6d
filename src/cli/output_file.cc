#include "cli/output_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace sumcast::cli {
namespace {

namespace fs = std::filesystem;

/// Empty, or why not all of it is there.
std::string write_into(const std::string& path, const std::string& text) {
  errno = 0;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  return file ? "" : std::strerror(errno != 0 ? errno : EIO);
}

}  // namespace

std::string why_not_writable(const std::string& path) {
  if (path.empty()) return "the name is empty";
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return "that is a directory";
  if (fs::exists(path, ignored)) {
    return ::access(path.c_str(), W_OK) == 0 ? "" : std::strerror(errno);
  }
  std::string directory = fs::path(path).parent_path().string();
  if (directory.empty()) directory = ".";
  if (!fs::is_directory(directory, ignored)) {
    return fmt::format("there is no directory {}", directory);
  }
  return ::access(directory.c_str(), W_OK) == 0 ? "" : std::strerror(errno);
}

Result<void> check_writable(const std::string& path) {
  const std::string obstacle = path.empty() ? "" : why_not_writable(path);
  if (obstacle.empty()) return {};
  return fail(ErrorCode::kInvalidArgument, fmt::format("cannot write {}: {}", path, obstacle));
}

Result<void> write_output_file(const std::string& path, const std::string& text) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(path, error);
  const bool can_replace = !fs::exists(status) || fs::is_regular_file(status);
  const std::string target = can_replace ? fmt::format("{}.{}.new", path, ::getpid()) : path;
  std::string why = write_into(target, text);
  if (why.empty() && can_replace) {
    fs::rename(target, path, error);
    if (error) why = error.message();
  }
  if (!why.empty() && can_replace) {
    fs::remove(target, error);
    // Its directory does not let it be replaced: a file bound into a container, or one's own in
    // another's directory.
    if (fs::exists(status)) why = write_into(path, text);
  }
  if (why.empty()) return {};
  return fail(ErrorCode::kUnavailable, fmt::format("cannot write {}: {}", path, why));
}

}  // namespace sumcast::cli

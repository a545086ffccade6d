#include "runtime/log.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>
#include <mutex>

#include "runtime/clock.h"
#include "runtime/repeat_filter.h"

namespace sumcast::runtime {
namespace {

constexpr std::array<std::string_view, 4> kLevelNames = {"VERSION", "WARN", "INFO", "TRACE"};
constexpr std::array<std::string_view, kSubsystems> kSubsystemNames = {
    "INIT", "ENV", "NET", "AUTH", "CONTROL", "COLL", "TUNING", "DAEMON"};
constexpr int64_t kNoRank = -1;

/// What writing needs; one a process, never destroyed, since threads may log while it ends.
struct LogState {
  std::mutex mutex;  // Guards all below but the rank.
  int fd = STDERR_FILENO;
  std::string host;
  RepeatFilter repeats;
  std::atomic<int64_t> rank{kNoRank};
};

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  const std::string_view full = name.data();
  return std::string(full.substr(0, full.find('.')));
}

LogState& state() {
  static LogState* const instance = [] {
    auto* made = new LogState;
    made->host = host_name();
    return made;
  }();
  return *instance;
}

long thread_id() {
  static thread_local const long id = ::syscall(SYS_gettid);
  return id;
}

/// "2026-11-30 12:04:48.123", local time: what people compare with their other logs.
std::string time_text() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  tm parts{};
  ::localtime_r(&now.tv_sec, &parts);
  return fmt::format("{:%F %T}.{:03}", parts, now.tv_nsec / 1'000'000);
}

/// Not a terminal that is held (^S) or a pipe that nobody empties: they must not stop a thread
/// whose heartbeats others wait for. What takes more takes PIPE_BUF bytes without blocking.
bool takes_more(int fd) {
  constexpr int kPatienceMs = 50;
  pollfd one{fd, POLLOUT, 0};
  return ::poll(&one, 1, kPatienceMs) == 1 && (one.revents & POLLOUT) != 0;
}

// There is nobody to tell about a failing log, so a failed write is dropped.
void write_line(LogState& log, std::string_view body) {
  const int64_t rank = log.rank.load(std::memory_order_relaxed);
  const std::string line =
      fmt::format("[{}] {}:{}:{} [{}] SUMCAST {}\n", time_text(), log.host, ::getpid(), thread_id(),
                  rank == kNoRank ? std::string("-") : std::to_string(rank), body);
  std::string_view rest = line;
  while (!rest.empty()) {
    if (!takes_more(log.fd)) return;
    const ssize_t wrote = ::write(log.fd, rest.data(), std::min<size_t>(rest.size(), PIPE_BUF));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return;
    rest.remove_prefix(static_cast<size_t>(wrote));
  }
}

void write_filtered(std::string_view body) {
  LogState& log = state();
  const std::lock_guard lock(log.mutex);
  const Instant now = monotonic_now();
  while (const auto over = log.repeats.expire(now)) {
    write_line(log, fmt::format("{} (and {} more times)", over->text, over->hidden));
  }
  if (log.repeats.admit(body, now)) write_line(log, body);
}

template <size_t kCount>
std::string listed(const std::array<std::string_view, kCount>& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

bool same_word(std::string_view typed, std::string_view name) {
  return std::equal(typed.begin(), typed.end(), name.begin(), name.end(), [](char a, char b) {
    return (a >= 'a' && a <= 'z' ? static_cast<char>(a - 'a' + 'A') : a) == b;
  });
}

Result<uint32_t> parse_level(std::string_view text) {
  for (uint32_t i = 0; i < kLevelNames.size(); ++i) {
    if (same_word(text, kLevelNames[i])) return i;
  }
  return fail(
      ErrorCode::kInvalidArgument,
      fmt::format("'{}' is not a debug level; choose one of {}", text, listed(kLevelNames)));
}

/// One bit for each subsystem of a list such as "INIT,NET", of all others for "^NET".
Result<uint32_t> parse_subsystems(std::string_view text) {
  constexpr uint32_t kAll = (1u << kSubsystems) - 1;
  const bool inverted = !text.empty() && text.front() == '^';
  std::string_view rest = inverted ? text.substr(1) : text;
  uint32_t bits = 0;
  while (!rest.empty()) {
    const std::string_view word = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    const auto found =
        std::find_if(kSubsystemNames.begin(), kSubsystemNames.end(),
                     [word](std::string_view name) { return same_word(word, name); });
    if (same_word(word, "ALL")) {
      bits = kAll;
    } else if (found != kSubsystemNames.end()) {
      bits |= 1u << (found - kSubsystemNames.begin());
    } else {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("'{}' is not a debug subsystem; choose from ALL, {}", word,
                              listed(kSubsystemNames)));
    }
  }
  return inverted ? kAll & ~bits : bits;
}

std::string expand(std::string_view pattern, const std::string& host) {
  std::string path;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char next = pattern[i] == '%' && i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (next == 'h') {
      path += host;
    } else if (next == 'p') {
      path += std::to_string(::getpid());
    } else {
      path += pattern[i];
      continue;
    }
    ++i;
  }
  return path;
}

}  // namespace

std::string_view name_of(LogLevel level) { return kLevelNames[static_cast<size_t>(level)]; }
std::string_view name_of(Subsystem subsystem) {
  return kSubsystemNames[static_cast<size_t>(subsystem)];
}

Result<void> check_log_options(const LogOptions& options) {
  if (const auto level = parse_level(options.level); !level) return fail(level.error());
  if (const auto bits = parse_subsystems(options.subsystems); !bits) return fail(bits.error());
  return {};
}

Result<void> configure_log(const LogOptions& options) {
  const Result<uint32_t> level = parse_level(options.level);
  if (!level) return fail(level.error());
  const Result<uint32_t> bits = parse_subsystems(options.subsystems);
  if (!bits) return fail(bits.error());
  LogState& log = state();
  int fd = STDERR_FILENO;
  if (!options.file.empty()) {
    const std::string path = expand(options.file, log.host);
    fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0) {
      return fail(ErrorCode::kSystem,
                  fmt::format("cannot open debug file {}: {}", path, std::strerror(errno)));
    }
  }
  const std::lock_guard lock(log.mutex);
  if (log.fd != STDERR_FILENO) ::close(log.fd);
  log.fd = fd;
  log.repeats = RepeatFilter();
  detail::log_filter.store(*level | *bits << 8, std::memory_order_relaxed);
  return {};
}

void set_log_rank(std::optional<uint32_t> rank) {
  state().rank.store(rank ? int64_t{*rank} : kNoRank, std::memory_order_relaxed);
}

namespace detail {

void write_log(LogLevel level, Subsystem subsystem, std::string_view text) {
  write_filtered(fmt::format("{} {} {}", name_of(level), name_of(subsystem), text));
}

}  // namespace detail

void log_version(std::string_view text) {
  const uint32_t shown = detail::log_filter.load(std::memory_order_relaxed) & 0xFFu;
  if (shown == static_cast<uint32_t>(LogLevel::kWarn)) return;
  write_filtered(fmt::format("VERSION {}", text));
}

void flush_log() {
  LogState& log = state();
  const std::lock_guard lock(log.mutex);
  while (const auto over = log.repeats.expire(Instant::never())) {
    write_line(log, fmt::format("{} (and {} more times)", over->text, over->hidden));
  }
}

}  // namespace sumcast::runtime

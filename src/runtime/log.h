// The log, as users of NCCL know it: silent unless something is wrong, lines that grep well.
//
//   SUMCAST_DEBUG=VERSION|WARN|INFO|TRACE   default WARN
//   SUMCAST_DEBUG_SUBSYS=INIT,NET or ^NET   default ALL; warnings pass always
//   SUMCAST_DEBUG_FILE=/tmp/log.%h.%p       %h is the host, %p the process; default standard error
//
//   [2026-11-30 12:04:48.123] node3:4711:4713 [2] SUMCAST INFO NET using 10.0.0.3 to reach ...
//
// A call that is not shown costs a relaxed load and a branch; arguments should be cheap. A line is
// one write, so lines of threads and processes do not mix. A text that repeats is shown a few
// times a second and then counted (runtime/repeat_filter.h). Never called per datagram: those
// have counters.
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace sumcast::runtime {

enum class LogLevel : uint8_t {
  kVersion = 0,  ///< One line about the version at start, and warnings.
  kWarn = 1,     ///< Something that the user should know or act on.
  kInfo = 2,     ///< What was chosen and why, at start and on change.
  kTrace = 3,    ///< Every operation.
};

/// What a line is about. Names as in SUMCAST_DEBUG_SUBSYS: without the k, in capitals.
enum class Subsystem : uint8_t { kInit, kEnv, kNet, kAuth, kControl, kColl, kTuning, kDaemon };
inline constexpr size_t kSubsystems = 8;

std::string_view name_of(LogLevel level);
std::string_view name_of(Subsystem subsystem);

/// What the three variables say, as text.
struct LogOptions {
  std::string level = "WARN";
  std::string subsystems = "ALL";
  std::string file;  ///< Empty: standard error.
};

/// Sets the process's log up; once, before threads start. Called again, it replaces the settings.
///
/// @return kInvalidArgument for an unknown level or subsystem, with the known ones; kSystem if
///         the file cannot be opened. The log then stays as it was.
Result<void> configure_log(const LogOptions& options);

/// Whether a level and a list of subsystems are well formed; configuration checks with it.
Result<void> check_log_options(const LogOptions& options);

/// The rank that lines carry from now on; nothing (shown as "-") for a process without one.
void set_log_rank(std::optional<uint32_t> rank);

namespace detail {
// Both in one word, so that a check is one load: level in bits 0..7, a bit per subsystem above.
inline std::atomic<uint32_t> log_filter{static_cast<uint32_t>(LogLevel::kWarn) | ~0xFFu};
void write_log(LogLevel level, Subsystem subsystem, std::string_view text);
}  // namespace detail

/// Whether a line would be shown. For callers whose arguments are costly to make.
inline bool log_enabled(LogLevel level, Subsystem subsystem) {
  const uint32_t filter = detail::log_filter.load(std::memory_order_relaxed);
  const uint32_t shown = filter & 0xFFu;
  if (level <= LogLevel::kWarn) return true;
  return static_cast<uint32_t>(level) <= shown &&
         (filter >> (8 + static_cast<uint32_t>(subsystem)) & 1u) != 0;
}

template <typename... Args>
void log_warn(Subsystem subsystem, fmt::format_string<Args...> format, Args&&... args) {
  detail::write_log(LogLevel::kWarn, subsystem, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_info(Subsystem subsystem, fmt::format_string<Args...> format, Args&&... args) {
  if (!log_enabled(LogLevel::kInfo, subsystem)) return;
  detail::write_log(LogLevel::kInfo, subsystem, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_trace(Subsystem subsystem, fmt::format_string<Args...> format, Args&&... args) {
  if (!log_enabled(LogLevel::kTrace, subsystem)) return;
  detail::write_log(LogLevel::kTrace, subsystem, fmt::format(format, std::forward<Args>(args)...));
}

/// The line that SUMCAST_DEBUG=VERSION asks for; shown at VERSION, INFO and TRACE.
void log_version(std::string_view text);

/// Tells what the filter of repeated lines still holds back. Before a program exits.
void flush_log();

}  // namespace sumcast::runtime

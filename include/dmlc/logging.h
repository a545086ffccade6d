// CHECK and LOG, as programs for ps-lite use them.
//
// A line is composed first and written whole, so lines of threads do not mix. LOG(FATAL) and a
// failed CHECK write their line and throw dmlc::Error (or abort, see dmlc/base.h): in main that
// ends the process, in a thread of the program or in a handler too.
#ifndef DMLC_LOGGING_H_
#define DMLC_LOGGING_H_

#include <stdexcept>
#include <string>

#include "dmlc/base.h"

namespace dmlc {

/// What LOG(FATAL) and a failed CHECK throw.
struct Error : public std::runtime_error {
  explicit Error(const std::string& what) : std::runtime_error(what) {}
};

}  // namespace dmlc

#if DMLC_USE_GLOG
#include <glog/logging.h>

namespace dmlc {
inline void InitLogging(const char* argv0) { google::InitGoogleLogging(argv0); }
}  // namespace dmlc

#else

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <sstream>
#include <utility>

namespace dmlc {

inline void InitLogging(const char*) {}

/// "[12:34:56] file:line: "
inline std::string LinePrefix(const char* file, int line) {
  const std::time_t now = std::time(nullptr);
  std::tm parts;
  localtime_r(&now, &parts);
  char clock[16];
  std::strftime(clock, sizeof clock, "%H:%M:%S", &parts);
  return std::string("[") + clock + "] " + file + ":" + std::to_string(line) + ": ";
}

class LogMessage {
 public:
  LogMessage(const char* file, int line) { stream_ << LinePrefix(file, line); }
  ~LogMessage() {
    stream_ << '\n';
    const std::string text = stream_.str();
    std::fwrite(text.data(), 1, text.size(), stderr);
  }
  LogMessage(const LogMessage&) = delete;
  LogMessage& operator=(const LogMessage&) = delete;

  std::ostream& stream() { return stream_; }

 private:
  std::ostringstream stream_;
};

class LogMessageFatal {
 public:
  LogMessageFatal(const char* file, int line) { stream_ << LinePrefix(file, line); }
  ~LogMessageFatal() noexcept(false) {
    const std::string text = stream_.str();
    const std::string whole = text + '\n';
    std::fwrite(whole.data(), 1, whole.size(), stderr);
#if DMLC_LOG_FATAL_THROW
    throw Error(text);
#else
    std::abort();
#endif
  }
  LogMessageFatal(const LogMessageFatal&) = delete;
  LogMessageFatal& operator=(const LogMessageFatal&) = delete;

  std::ostream& stream() { return stream_; }

 private:
  std::ostringstream stream_;
};

/// Turns a stream into a statement: & binds weaker than <<, stronger than ?:.
struct LogMessageVoidify {
  void operator&(std::ostream&) {}
};

template <typename T>
inline T&& CheckNotNull(const char* file, int line, const char* text, T&& pointer) {
  if (pointer == nullptr) LogMessageFatal(file, line).stream() << text << " must not be null";
  return std::forward<T>(pointer);
}

}  // namespace dmlc

#define CHECK(x)                                                                           \
  (x) ? (void)0                                                                            \
      : ::dmlc::LogMessageVoidify() & ::dmlc::LogMessageFatal(__FILE__, __LINE__).stream() \
                                          << "Check failed: " #x << ' '
#define CHECK_LT(x, y) CHECK((x) < (y))
#define CHECK_GT(x, y) CHECK((x) > (y))
#define CHECK_LE(x, y) CHECK((x) <= (y))
#define CHECK_GE(x, y) CHECK((x) >= (y))
#define CHECK_EQ(x, y) CHECK((x) == (y))
#define CHECK_NE(x, y) CHECK((x) != (y))
#define CHECK_NOTNULL(x) ::dmlc::CheckNotNull(__FILE__, __LINE__, #x, (x))

#ifdef NDEBUG
#define DCHECK(x) \
  while (false) CHECK(x)
#else
#define DCHECK(x) CHECK(x)
#endif
#define DCHECK_LT(x, y) DCHECK((x) < (y))
#define DCHECK_GT(x, y) DCHECK((x) > (y))
#define DCHECK_LE(x, y) DCHECK((x) <= (y))
#define DCHECK_GE(x, y) DCHECK((x) >= (y))
#define DCHECK_EQ(x, y) DCHECK((x) == (y))
#define DCHECK_NE(x, y) DCHECK((x) != (y))

#define LOG_INFO ::dmlc::LogMessage(__FILE__, __LINE__)
#define LOG_WARNING LOG_INFO
#define LOG_ERROR LOG_INFO
#define LOG_FATAL ::dmlc::LogMessageFatal(__FILE__, __LINE__)
#define LOG_QFATAL LOG_FATAL

#define LOG(severity) LOG_##severity.stream()
#define LG LOG_INFO.stream()
#define VLOG(x) LOG_INFO.stream()
#define LOG_IF(severity, condition) \
  !(condition) ? (void)0 : ::dmlc::LogMessageVoidify() & LOG(severity)
#define LOG_EVERY_N(severity, n) LOG(severity)

#ifdef NDEBUG
#define LOG_DFATAL LOG_ERROR
#define DFATAL ERROR
#define DLOG(severity) true ? (void)0 : ::dmlc::LogMessageVoidify() & LOG(severity)
#define DLOG_IF(severity, condition) \
  (true || !(condition)) ? (void)0 : ::dmlc::LogMessageVoidify() & LOG(severity)
#else
#define LOG_DFATAL LOG_FATAL
#define DFATAL FATAL
#define DLOG(severity) LOG(severity)
#define DLOG_IF(severity, condition) LOG_IF(severity, condition)
#endif

#endif  // DMLC_USE_GLOG
#endif  // DMLC_LOGGING_H_

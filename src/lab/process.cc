#include "lab/process.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/assert.h"
#include "lab/interrupt.h"

namespace sumcast::lab {
namespace {

Instant now() {
  return Instant{std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1)};
}

// Waits until `fd` has `events` or hung up. False at the deadline.
bool wait_for(int fd, short events, Instant deadline) {
  for (;;) {
    const Duration left = std::max(deadline - now(), Duration{0});
    // Rounded up, so that the last millisecond is not spent spinning.
    const auto left_ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
    pollfd entry{fd, events, 0};
    const int ready = ::poll(&entry, 1, static_cast<int>(std::min<int64_t>(left_ms, 1'000'000)));
    if (ready > 0) return true;
    if (now() >= deadline) return false;
  }
}

Duration to_duration(const timeval& time) {
  return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
}

// Blocks SIGPIPE for a write of this thread and swallows the one that the write may have raised.
// Standard input is a real pipe rather than a socket because programs reopen /dev/stdin.
class NoPipeSignal {
 public:
  NoPipeSignal() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoPipeSignal() {
    if (sigismember(&before_, SIGPIPE) == 0) {
      const timespec at_once{0, 0};
      while (::sigtimedwait(&pipe_, nullptr, &at_once) < 0 && errno == EINTR) {
      }
      ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }
  }
  NoPipeSignal(const NoPipeSignal&) = delete;
  NoPipeSignal& operator=(const NoPipeSignal&) = delete;

 private:
  sigset_t pipe_{};
  sigset_t before_{};
};

}  // namespace

std::string ExitStatus::describe() const {
  if (signal == 0) return fmt::format("exit code {}", code);
  return fmt::format("signal {} ({})", signal, ::strsignal(signal));
}

Process::Process(Process&& other) noexcept { *this = std::move(other); }

Process& Process::operator=(Process&& other) noexcept {
  if (this == &other) return *this;
  kill();
  pid_ = std::exchange(other.pid_, -1);
  name_ = std::move(other.name_);
  handle_ = std::move(other.handle_);
  input_ = std::move(other.input_);
  output_ = std::move(other.output_);
  held_ = std::move(other.held_);
  buffered_ = std::move(other.buffered_);
  output_ended_ = other.output_ended_;
  status_ = std::exchange(other.status_, std::nullopt);
  return *this;
}

Process::~Process() { kill(); }

std::optional<ExitStatus> Process::poll() {
  Result<ExitStatus> status = wait(Duration{0});
  return status ? std::optional(*status) : std::nullopt;
}

Result<ExitStatus> Process::wait(Duration timeout) {
  if (status_) return *status_;
  if (pid_ < 0) return fail(ErrorCode::kInvalidArgument, "there is no process to wait for");
  if (!wait_for(handle_.get(), POLLIN, now() + timeout)) {
    return fail(ErrorCode::kTimeout, fmt::format("{} (process {}) still runs", name_, pid_));
  }
  // Until it is reaped, the number belongs to this group and can be used safely.
  ::kill(-pid_, SIGKILL);
  forget_child(pid_);
  int status = 0;
  rusage usage{};
  pid_t reaped = 0;
  do {
    reaped = ::wait4(pid_, &status, 0, &usage);
  } while (reaped < 0 && errno == EINTR);
  SUMCAST_ASSERT(reaped == pid_);
  ExitStatus ended;
  if (WIFSIGNALED(status)) {
    ended.signal = WTERMSIG(status);
  } else {
    ended.code = WEXITSTATUS(status);
  }
  ended.cpu = to_duration(usage.ru_utime) + to_duration(usage.ru_stime);
  status_ = ended;
  return ended;
}

void Process::send_signal(int signal) {
  if (pid_ > 0 && !status_) ::kill(-pid_, signal);
}

void Process::kill() {
  if (pid_ < 0 || status_) return;
  ::kill(-pid_, SIGKILL);
  ::kill(pid_, SIGKILL);
  // SIGKILL cannot be refused, but a process in an uninterruptible wait takes its time.
  static_cast<void>(wait(std::chrono::minutes(1)));
}

Result<void> Process::write_input(std::string_view text) {
  const NoPipeSignal quiet;
  while (!text.empty()) {
    const ssize_t written = ::write(input_.get(), text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      return fail(ErrorCode::kUnavailable,
                  fmt::format("writing to {}: {}", name_, std::strerror(errno)));
    }
    text.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

Result<bool> Process::fill_buffer(Instant deadline) {
  if (output_ended_ || !output_) return false;
  if (!wait_for(output_.get(), POLLIN, deadline)) {
    return fail(ErrorCode::kTimeout, fmt::format("{} printed nothing more in time", name_));
  }
  char block[16384];
  const ssize_t got = ::read(output_.get(), block, sizeof block);
  if (got < 0 && errno != EINTR) {
    return fail(ErrorCode::kSystem, fmt::format("reading from {}: {}", name_, strerror(errno)));
  }
  if (got > 0) buffered_.append(block, static_cast<size_t>(got));
  output_ended_ = got == 0;
  return !output_ended_;
}

Result<std::string> Process::read_line(Duration timeout) {
  const Instant deadline = now() + timeout;
  for (;;) {
    const size_t newline = buffered_.find('\n');
    if (newline != std::string::npos) {
      std::string line = buffered_.substr(0, newline);
      buffered_.erase(0, newline + 1);
      return line;
    }
    const Result<bool> more = fill_buffer(deadline);
    if (!more) return fail(more.error());
    if (!*more && !buffered_.empty()) return std::exchange(buffered_, {});
    if (!*more) return fail(ErrorCode::kUnavailable, fmt::format("{} closed its output", name_));
  }
}

Result<std::string> Process::read_output(Duration timeout) {
  const Instant deadline = now() + timeout;
  for (;;) {
    const Result<bool> more = fill_buffer(deadline);
    if (!more) return fail(more.error());
    if (!*more) return std::exchange(buffered_, {});
  }
}

}  // namespace sumcast::lab

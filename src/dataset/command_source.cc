#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "dataset/byte_source.h"

namespace sumcast::dataset {
namespace {

/// A running program and the pipe that it prints into.
class CommandSource final : public ByteSource {
 public:
  CommandSource(std::string name, pid_t pid, int output, Duration patience)
      : name_(std::move(name)), pid_(pid), output_(output), patience_(patience) {}
  ~CommandSource() override { end(); }
  CommandSource(const CommandSource&) = delete;
  CommandSource& operator=(const CommandSource&) = delete;

  Result<size_t> read(std::span<char> out) override {
    if (output_ < 0) return 0;
    pollfd waiting{output_, POLLIN, 0};
    const auto patience_ms =
        static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(patience_).count());
    int ready = 0;
    do {
      ready = ::poll(&waiting, 1, patience_ms);
    } while (ready < 0 && errno == EINTR);
    if (ready == 0) {
      end();
      return fail(ErrorCode::kTimeout,
                  fmt::format("{} printed nothing for {} s", name_, patience_ / 1s));
    }
    ssize_t got = 0;
    do {
      got = ::read(output_, out.data(), out.size());
    } while (got < 0 && errno == EINTR);
    if (got < 0) {
      return fail(ErrorCode::kSystem, fmt::format("reading from {}: {}", name_, strerror(errno)));
    }
    if (got > 0) return static_cast<size_t>(got);
    return finish();
  }

 private:
  /// At the end of output: the program must have ended well.
  Result<size_t> finish() {
    ::close(std::exchange(output_, -1));
    int status = 0;
    pid_t ended = 0;
    for (Duration waited{0}; ended == 0 && waited < patience_; waited += 10ms) {
      ended = ::waitpid(pid_, &status, WNOHANG);
      if (ended == 0) ::usleep(10'000);
    }
    if (ended == 0) {
      end();
      return fail(ErrorCode::kTimeout, fmt::format("{} closed its output but did not end", name_));
    }
    pid_ = -1;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return 0;
    const std::string how = WIFEXITED(status) ? fmt::format("exit code {}", WEXITSTATUS(status))
                                              : fmt::format("signal {}", WTERMSIG(status));
    return fail(ErrorCode::kUnavailable, fmt::format("{} ended with {}", name_, how));
  }

  void end() {
    if (output_ >= 0) ::close(std::exchange(output_, -1));
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
  }

  std::string name_;
  pid_t pid_;
  int output_;
  Duration patience_;
};

}  // namespace

Result<std::unique_ptr<ByteSource>> open_command(const std::vector<std::string>& command,
                                                 Duration patience) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return fail(ErrorCode::kSystem, fmt::format("pipe: {}", std::strerror(errno)));
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  std::vector<char*> arguments;
  // posix_spawn takes pointers to char that it does not write through.
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t pid = -1;
  const int trouble =
      ::posix_spawnp(&pid, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  if (trouble != 0) {
    ::close(ends[0]);
    return fail(ErrorCode::kUnavailable,
                fmt::format("cannot run {}: {}", command[0], std::strerror(trouble)));
  }
  std::string name = fmt::format("{}", fmt::join(command, " "));
  return std::make_unique<CommandSource>(std::move(name), pid, ends[0], patience);
}

}  // namespace sumcast::dataset

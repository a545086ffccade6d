// sumcastd: reads its words, serves until SIGINT, SIGTERM or SIGHUP, says goodbye.
//
// Exit codes: 0 after a signal, 1 if it cannot serve, 2 if its words make no sense.
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "daemon/command_line.h"
#include "daemon/daemon.h"
#include "daemon/service_manager.h"
#include "runtime/log.h"

namespace sumcast::daemon {
namespace {

/// Blocked before any thread starts, so that all of them inherit it and main alone is woken.
sigset_t block_end_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  // The terminal is gone: an end like the others, unless nohup says that it is none.
  if (::signal(SIGHUP, SIG_IGN) != SIG_IGN) {
    ::signal(SIGHUP, SIG_DFL);
    sigaddset(&signals, SIGHUP);
  }
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  return signals;
}

/// Whatever a reader of the status pages does, we are gone within a second.
void limit_farewell() {
  ::signal(SIGALRM, [](int) { ::_exit(0); });
  itimerval timer{};
  timer.it_value.tv_usec = 900'000;
  ::setitimer(ITIMER_REAL, &timer, nullptr);
}

void say_ready(const Daemon& daemon, const CommandLine& words) {
  if (words.json_ready) {
    const nlohmann::json line = {
        {"ready", true},
        {"listen", daemon.listen().text()},
        {"http", daemon.http().empty() ? nlohmann::json(nullptr) : nlohmann::json(daemon.http())},
        {"shards", daemon.shards()},
        {"threads", words.daemon.threads},
        {"pid", ::getpid()}};
    std::printf("%s\n", line.dump().c_str());
  } else {
    std::printf("sumcastd %s takes workers on %s, %u thread%s\n", SUMCAST_VERSION,
                daemon.listen().text().c_str(), words.daemon.threads,
                words.daemon.threads == 1 ? "" : "s");
    if (!daemon.http().empty()) {
      std::printf("status at http://%s/status\n", daemon.http().c_str());
    }
  }
  std::fflush(stdout);
}

int run(const CommandLine& words) {
  const sigset_t signals = block_end_signals();
  if (auto configured = runtime::configure_log(words.log); !configured) {
    std::fprintf(stderr, "sumcastd: %s\n", configured.error().what.c_str());
    return kExitUsage;
  }
  runtime::log_version("sumcastd " SUMCAST_VERSION);
  auto daemon = Daemon::start(words.daemon);
  if (!daemon) {
    std::fprintf(stderr, "sumcastd: %s\n", daemon.error().what.c_str());
    return 1;
  }
  if (!words.daemon.key) {
    std::fprintf(stderr,
                 "sumcastd: WARNING: --insecure: no keys, no tags. Whoever can reach these ports "
                 "can join jobs and change their sums.\n");
  }
  say_ready(**daemon, words);
  notify_service_manager("READY=1");
  int signal = 0;
  ::sigwait(&signals, &signal);
  notify_service_manager("STOPPING=1");
  limit_farewell();
  (*daemon)->stop();
  runtime::flush_log();
  return 0;
}

}  // namespace
}  // namespace sumcast::daemon

int main(int argc, char** argv) {
  using namespace sumcast::daemon;
  const auto words = parse_command_line(argc, argv);
  if (const auto* exit_now = std::get_if<ExitNow>(&words)) {
    std::fputs(exit_now->text.c_str(), exit_now->code == 0 ? stdout : stderr);
    return exit_now->code;
  }
  return run(std::get<CommandLine>(words));
}

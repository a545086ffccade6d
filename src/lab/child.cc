#include "lab/child.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <initializer_list>

#include "lab/interrupt.h"

namespace sumcast::lab {
namespace {

// fork(2) as a bare system call: takes flags and runs no handlers of the C library.
pid_t bare_fork(unsigned long flags) {
  return static_cast<pid_t>(::syscall(SYS_clone, flags | SIGCHLD, 0ul, 0ul, 0ul, 0ul));
}

[[noreturn]] void give_up(const ChildPlan& plan, ChildStep step) {
  const ChildReport report{step, errno};
  const ssize_t ignored = ::write(plan.report_fd, &report, sizeof report);
  static_cast<void>(ignored);
  ::_exit(127);
}

// Asks to be killed with the parent; the parent may have died before we asked, hence the look.
void bind_life_to_parent(const ChildPlan& plan) {
  if (!plan.die_with_parent) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  pollfd parent{plan.parent_handle, POLLIN, 0};
  if (::poll(&parent, 1, 0) != 0) give_up(plan, ChildStep::kParentGone);
}

[[noreturn]] void execute(const ChildPlan& plan) {
  if (plan.network_namespace >= 0 && ::setns(plan.network_namespace, CLONE_NEWNET) != 0) {
    give_up(plan, ChildStep::kNamespace);
  }
  for (int stream = 0; stream < 3; ++stream) {
    const int fd = plan.stream_fds[stream];
    if (fd >= 0 && ::dup2(fd, stream) < 0) give_up(plan, ChildStep::kStreams);
  }
  // Handlers vanish at exec, ignored signals and the mask would not.
  for (const int number : {SIGINT, SIGTERM, SIGPIPE, SIGCHLD}) ::signal(number, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execve(plan.path, plan.argv, plan.envp);
  give_up(plan, ChildStep::kExec);
}

// The init of a PID namespace. It reaps whatever is orphaned and ends with the program's status;
// when it ends, or is killed, the kernel kills all that is left inside. Signals stay blocked: the
// program is in our process group and receives them itself.
[[noreturn]] void be_init(const ChildPlan& plan) {
  const bool mounted = ::unshare(CLONE_NEWNS) == 0 &&
                       ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                       ::mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, nullptr) == 0;
  if (!mounted) give_up(plan, ChildStep::kContain);
  const pid_t program = bare_fork(0);
  if (program < 0) give_up(plan, ChildStep::kContain);
  if (program == 0) execute(plan);
  // Holding on to pipes would keep their readers from ever seeing the end.
  ::syscall(SYS_close_range, 0u, ~0u, 0u);
  for (;;) {
    int status = 0;
    const pid_t ended = ::waitpid(-1, &status, 0);
    if (ended == program) {
      ::_exit(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
    }
    if (ended < 0 && errno != EINTR) ::_exit(127);
  }
}

}  // namespace

pid_t start_child(const ChildPlan& plan) {
  // With signals blocked, a handler of ours (ScopedInterrupt) can never run inside the child.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = bare_fork(plan.contain ? CLONE_NEWPID : 0);
  if (pid == 0) {
    ::setpgid(0, 0);
    bind_life_to_parent(plan);
    if (plan.contain) be_init(plan);
    execute(plan);
  }
  const int error = errno;
  if (pid > 0) {
    ::setpgid(pid, pid);  // Both sides do it, so that neither can be too late.
    remember_child(pid);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return pid;
}

}  // namespace sumcast::lab

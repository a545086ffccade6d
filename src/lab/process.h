// Child processes that never outlive us, in a network namespace or outside.
//
// Knows nothing of clusters. Three layers make sure that nothing is left: the destructor kills and
// reaps; PR_SET_PDEATHSIG has the kernel kill a child whose parent died, however it died; and a
// *contained* child sits in a PID namespace, so that its descendants, which may have changed
// session or group as MPI's daemons do, die with it too.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "lab/fd.h"

namespace sumcast::lab {

/// Where one of a child's standard streams goes.
struct Redirect {
  enum class Kind : uint8_t {
    kInherit,  ///< The parent's own.
    kNull,     ///< /dev/null.
    kPipe,     ///< The parent writes or reads it through Process. Not for standard error.
    kFile,     ///< Created or truncated at `path`; for standard input, read from it.
    kMerge,    ///< Standard error only: wherever standard output goes.
  };
  Kind kind = Kind::kInherit;
  std::string path;

  static Redirect inherit() { return {Kind::kInherit, {}}; }
  static Redirect null() { return {Kind::kNull, {}}; }
  static Redirect pipe() { return {Kind::kPipe, {}}; }
  static Redirect file(std::string where) { return {Kind::kFile, std::move(where)}; }
  static Redirect merge() { return {Kind::kMerge, {}}; }
};

struct SpawnOptions {
  /// "NAME=value" entries that are added to our environment or replace entries of it.
  std::vector<std::string> env;
  Redirect input = Redirect::null();
  Redirect output = Redirect::inherit();
  Redirect errors = Redirect::inherit();
  /// Has the kernel kill the child when the *thread* that spawned it ends (that is how
  /// PR_SET_PDEATHSIG counts), so spawn from a thread that lives as long as the child should.
  bool die_with_parent = true;
  /// Runs the child in a PID namespace, with a private /dev/shm. Needs the privileges that building
  /// a cluster needs. A child ended by a signal then reports exit code 128 + signal.
  bool contain = false;
};

struct ExitStatus {
  int code = 0;     ///< Exit code, if `signal` is 0.
  int signal = 0;   ///< The signal that ended it, or 0.
  Duration cpu{0};  ///< User and system time of the child and of the descendants it waited for.

  bool ok() const { return code == 0 && signal == 0; }
  /// "exit code 3" or "signal 9 (Killed)".
  std::string describe() const;
};

/// One running or finished child, leader of its own process group. One thread at a time.
class Process {
 public:
  Process() = default;
  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;
  /// Kills what is still running.
  ~Process();

  pid_t pid() const { return pid_; }
  /// The program's name, for messages.
  const std::string& name() const { return name_; }

  /// Waits for the end and reaps; what is left of the process group is killed. Later calls return
  /// the same status. kTimeout if it still runs after `timeout` (it is left running).
  Result<ExitStatus> wait(Duration timeout);
  /// The status if it has ended, without waiting.
  std::optional<ExitStatus> poll();
  /// Sends `signal` to the process group. Nothing happens once it has been reaped.
  void send_signal(int signal);
  /// SIGKILL to the group, then reaps. Harmless on a finished process.
  void kill();

  /// Writes all of `text` to the child's standard input (Redirect::pipe); blocks while it is full.
  /// kUnavailable if the child has closed it.
  Result<void> write_input(std::string_view text);
  void close_input() { input_.reset(); }
  /// The next line of its output (Redirect::pipe) without the newline. kTimeout after `timeout`;
  /// kUnavailable at the end of output. A last line without newline counts as a line.
  Result<std::string> read_line(Duration timeout);
  /// Everything up to the end of output, which comes when all holders have closed it. On kTimeout
  /// what was read stays for the next call.
  Result<std::string> read_output(Duration timeout);
  /// Descriptor of the output pipe for poll(2), -1 without one. Owned by this object.
  int output_fd() const { return output_.get(); }
  /// Keeps `fd` open as long as this object lives, for a child that needs it through /proc.
  void hold(Fd fd) { held_ = std::move(fd); }

 private:
  friend Result<Process> spawn_process(const std::vector<std::string>&, const SpawnOptions&, int);

  /// Reads once, at the latest until `deadline` (monotonic). False at the end of output.
  Result<bool> fill_buffer(Instant deadline);

  pid_t pid_ = -1;
  std::string name_;
  Fd handle_;  // A pidfd: becomes readable when the child ends.
  Fd input_;
  Fd output_;
  Fd held_;
  std::string buffered_;
  bool output_ended_ = false;
  std::optional<ExitStatus> status_;
};

/// Starts `argv` (argv[0] is looked up in PATH and the sbin directories). `network_namespace` is a
/// descriptor of the namespace to run in, or -1 for our own. Fails with a line that names the
/// program and the reason if it could not be executed.
Result<Process> spawn_process(const std::vector<std::string>& argv, const SpawnOptions& options,
                              int network_namespace = -1);

/// Absolute path of `program`, looked up as spawn_process does; nullopt if there is none.
std::optional<std::string> find_program(const std::string& program);

/// Runs to the end with `input` on standard input and returns what it printed, both streams
/// together. Any status but 0 is an error that quotes the output.
Result<std::string> run_to_end(const std::vector<std::string>& argv, std::string_view input,
                               Duration timeout, int network_namespace = -1);

}  // namespace sumcast::lab

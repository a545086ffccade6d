#include <fcntl.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/assert.h"
#include "lab/child.h"
#include "lab/process.h"

namespace sumcast::lab {
namespace {

// The child's ends of its streams; `mine` is our end of a pipe.
struct Stream {
  Fd child;
  Fd mine;
};

Result<Stream> open_pipe(bool child_reads) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return fail(ErrorCode::kSystem, fmt::format("pipe: {}", std::strerror(errno)));
  }
  Fd read_end(ends[0]);
  Fd write_end(ends[1]);
  if (child_reads) return Stream{std::move(read_end), std::move(write_end)};
  return Stream{std::move(write_end), std::move(read_end)};
}

Result<Stream> open_stream(const Redirect& redirect, bool child_reads) {
  switch (redirect.kind) {
    case Redirect::Kind::kInherit:
    case Redirect::Kind::kMerge:
      return Stream{};
    case Redirect::Kind::kPipe:
      return open_pipe(child_reads);
    case Redirect::Kind::kNull:
    case Redirect::Kind::kFile:
      break;
  }
  const bool null = redirect.kind == Redirect::Kind::kNull;
  const std::string path = null ? "/dev/null" : redirect.path;
  const int flags = child_reads ? O_RDONLY : O_WRONLY | O_CREAT | O_TRUNC;
  Fd file(::open(path.c_str(), flags | O_CLOEXEC, 0666));
  if (!file) {
    return fail(ErrorCode::kSystem, fmt::format("cannot open {}: {}", path, std::strerror(errno)));
  }
  return Stream{std::move(file), {}};
}

std::vector<std::string> merged_environment(const std::vector<std::string>& additions) {
  std::vector<std::string> merged;
  const auto replaces = [](std::string_view addition, std::string_view entry) {
    const size_t name_bytes = entry.find('=');
    return addition.substr(0, addition.find('=')) == entry.substr(0, name_bytes);
  };
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const auto same = [&](const std::string& addition) { return replaces(addition, *entry); };
    if (std::none_of(additions.begin(), additions.end(), same)) merged.emplace_back(*entry);
  }
  merged.insert(merged.end(), additions.begin(), additions.end());
  return merged;
}

std::vector<char*> as_pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (std::string& string : strings) pointers.push_back(string.data());
  pointers.push_back(nullptr);
  return pointers;
}

Error explain(const ChildReport& report, const std::string& program) {
  const char* reason = std::strerror(report.error);
  switch (report.step) {
    case ChildStep::kParentGone:
      return {ErrorCode::kInternal, fmt::format("cannot run {}: its parent ended", program)};
    case ChildStep::kContain:
      return {ErrorCode::kSystem,
              fmt::format("cannot run {} in a PID namespace: {}", program, reason)};
    case ChildStep::kNamespace:
      return {ErrorCode::kSystem,
              fmt::format("cannot run {}: entering its network namespace: {}", program, reason)};
    case ChildStep::kStreams:
      return {ErrorCode::kSystem,
              fmt::format("cannot run {}: redirecting its streams: {}", program, reason)};
    case ChildStep::kExec:
      break;
  }
  return {ErrorCode::kUnavailable, fmt::format("cannot run {}: {}", program, reason)};
}

std::string path_variable() {
  constexpr std::string_view kName = "PATH=";
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    if (std::strncmp(*entry, kName.data(), kName.size()) == 0) return *entry + kName.size();
  }
  return "/usr/local/bin:/usr/bin:/bin";
}

struct Streams {
  std::array<Stream, 3> standard;  // Input, output, errors.
  Stream report;                   // What keeps the child from executing, see ChildReport.
};

Result<Streams> open_streams(const SpawnOptions& options) {
  Streams streams;
  const Redirect* const redirects[] = {&options.input, &options.output, &options.errors};
  for (size_t i = 0; i < streams.standard.size(); ++i) {
    Result<Stream> stream = open_stream(*redirects[i], i == 0);
    if (!stream) return fail(stream.error());
    streams.standard[i] = std::move(*stream);
  }
  Result<Stream> report = open_pipe(false);
  if (!report) return fail(report.error());
  streams.report = std::move(*report);
  return streams;
}

// A descriptor that becomes readable when process `pid` ends. (Debian's <sys/pidfd.h> lacks C
// linkage, so the system call is made directly.)
Fd open_process_handle(pid_t pid) {
  return Fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0u)));
}

// Waits until the child runs its program or says why it cannot.
std::optional<ChildReport> read_report(Fd& report) {
  ChildReport trouble{};
  ssize_t got = 0;
  do {
    got = ::read(report.get(), &trouble, sizeof trouble);
  } while (got < 0 && errno == EINTR);
  // Nothing to read means that the other end was closed, by exec.
  if (got != static_cast<ssize_t>(sizeof trouble)) return std::nullopt;
  return trouble;
}

}  // namespace

std::optional<std::string> find_program(const std::string& program) {
  if (program.find('/') != std::string::npos) {
    return ::access(program.c_str(), X_OK) == 0 ? std::optional(program) : std::nullopt;
  }
  // Ordinary users on Debian have no sbin in their PATH, and that is where ip and tc are.
  const std::string path = path_variable() + ":/usr/local/sbin:/usr/sbin:/sbin";
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find(':', begin), path.size());
    if (end > begin) {
      const std::string candidate = path.substr(begin, end - begin) + "/" + program;
      if (::access(candidate.c_str(), X_OK) == 0) return candidate;
    }
    begin = end + 1;
  }
  return std::nullopt;
}

Result<Process> spawn_process(const std::vector<std::string>& argv, const SpawnOptions& options,
                              int network_namespace) {
  SUMCAST_ASSERT(!argv.empty());
  SUMCAST_ASSERT(options.errors.kind != Redirect::Kind::kPipe);
  const std::optional<std::string> path = find_program(argv[0]);
  if (!path) {
    return fail(ErrorCode::kUnavailable,
                fmt::format("cannot run {}: not found or not executable", argv[0]));
  }
  Result<Streams> streams = open_streams(options);
  if (!streams) return fail(streams.error().within(argv[0]));
  const Fd self = open_process_handle(::getpid());
  std::vector<std::string> arguments = argv;
  std::vector<std::string> environment = merged_environment(options.env);
  const std::vector<char*> argument_pointers = as_pointers(arguments);
  const std::vector<char*> environment_pointers = as_pointers(environment);

  ChildPlan plan;
  plan.path = path->c_str();
  plan.argv = argument_pointers.data();
  plan.envp = environment_pointers.data();
  for (size_t i = 0; i < 3; ++i) plan.stream_fds[i] = streams->standard[i].child.get();
  if (options.errors.kind == Redirect::Kind::kMerge) {
    plan.stream_fds[2] = plan.stream_fds[1] >= 0 ? plan.stream_fds[1] : STDOUT_FILENO;
  }
  plan.network_namespace = network_namespace;
  plan.parent_handle = self.get();
  plan.report_fd = streams->report.child.get();
  plan.die_with_parent = options.die_with_parent;
  plan.contain = options.contain;

  Process process;
  process.name_ = argv[0].substr(argv[0].rfind('/') + 1);
  process.pid_ = start_child(plan);
  if (process.pid_ < 0) {
    return fail(ErrorCode::kSystem,
                fmt::format("cannot fork for {}: {}", argv[0], std::strerror(errno)));
  }
  process.handle_ = open_process_handle(process.pid_);
  process.input_ = std::move(streams->standard[0].mine);
  process.output_ = std::move(streams->standard[1].mine);
  streams->report.child.reset();
  if (const std::optional<ChildReport> trouble = read_report(streams->report.mine)) {
    return fail(explain(*trouble, argv[0]));
  }
  return process;
}

Result<std::string> run_to_end(const std::vector<std::string>& argv, std::string_view input,
                               Duration timeout, int network_namespace) {
  SpawnOptions options;
  options.input = Redirect::pipe();
  options.output = Redirect::pipe();
  options.errors = Redirect::merge();
  Result<Process> process = spawn_process(argv, options, network_namespace);
  if (!process) return fail(process.error());
  const Result<void> written = process->write_input(input);
  process->close_input();
  Result<std::string> output = process->read_output(timeout);
  if (!output) return output;
  const Result<ExitStatus> status = process->wait(timeout);
  if (!status) return fail(status.error());
  if (!status->ok() || !written) {
    return fail(ErrorCode::kSystem,
                fmt::format("{} failed with {}: {}", process->name(), status->describe(), *output));
  }
  return output;
}

}  // namespace sumcast::lab

#include "cli/bench_worker.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <time.h>

#include <cstdio>
#include <cstdlib>

#include "cli/child_flags.h"
#include "cli/sleep_until.h"
#include "cli/wire_bench.h"
#include "runtime/clock.h"

namespace sumcast::cli {
namespace {

Duration process_cpu_time() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

Reply error_reply(const Error& error) {
  Reply reply;
  reply.kind = Reply::Kind::kError;
  reply.error = error.what;
  return reply;
}

Reply run_block(WorkerRole& role, Instant start) {
  sleep_until(start);
  const Duration cpu = process_cpu_time();
  const Instant began = runtime::monotonic_now();
  const Result<void> done = role.run();
  Reply reply;
  reply.kind = Reply::Kind::kDone;
  reply.wall = runtime::monotonic_now() - began;
  reply.cpu = process_cpu_time() - cpu;
  if (!done) return error_reply(done.error());
  reply.retransmits = role.retransmits();
  return reply;
}

Reply obey(WorkerRole& role, const Command& command) {
  Reply reply;
  switch (command.kind) {
    case Command::Kind::kCase:
      if (const Result<void> set = role.set_case(command.bench); !set) {
        return error_reply(set.error());
      }
      break;
    case Command::Kind::kFill:
      role.fill(command.in_place);
      break;
    case Command::Kind::kGo:
      return run_block(role, command.start);
    case Command::Kind::kCheck:
      reply.kind = Reply::Kind::kWrong;
      reply.wrong = role.count_wrong();
      break;
  }
  return reply;
}

void say(std::FILE* out, const Reply& reply) {
  fmt::print(out, "{}\n", to_line(reply));
  std::fflush(out);
}

int run_worker(const WorkerOptions& options) {
  ::prctl(PR_SET_TIMERSLACK, 1);  // Ranks start together: without this, 50 us apart.
  if (options.role == "wire-echo") return run_wire_echo(options);
  Result<std::unique_ptr<WorkerRole>> role =
      options.role == "wire" ? make_wire_role(options) : make_context_role(options);
  if (!role) {
    say(stdout, error_reply(role.error()));
    return 1;
  }
  return serve_commands(**role, stdin, stdout);
}

void add_worker_options(CLI::App& app, WorkerOptions& options, int64_t& timeout_ns,
                        int64_t& delay_ns) {
  Options& library = options.library;
  app.add_option("--role", options.role)->check(CLI::IsMember({"context", "wire", "wire-echo"}));
  app.add_option("--algorithm", options.algorithm);
  app.add_option("--job", library.job);
  app.add_option("--rank", library.rank);
  app.add_option("--world", library.world);
  app.add_option("--aggregator", library.aggregator);
  app.add_option("--coordinator", library.coordinator);
  app.add_option("--key-file", library.key_file);
  app.add_flag("--insecure", library.insecure);
  app.add_flag("--one-rank-per-host", library.one_rank_per_host);
  app.add_option("--ranks-per-host", options.ranks_per_host);
  app.add_option("--flows", library.flows);
  app.add_option("--window", library.window);
  app.add_option("--mtu", library.mtu);
  app.add_option("--timeout-ns", timeout_ns);
  app.add_option("--loss", library.faults.loss);
  app.add_option("--dup", library.faults.duplicate);
  app.add_option("--reorder", library.faults.reorder);
  app.add_option("--delay-ns", delay_ns);
  app.add_option("--fault-seed", library.faults.seed);
  app.add_option("--check", options.check);
  app.add_option("--unalign", options.unalign);
  app.add_option("--seed", options.seed);
  app.add_option("--peer", options.peer);
  app.add_option("--port", options.port);
}

}  // namespace

std::vector<std::string> worker_argv(const std::string& program, const WorkerOptions& options) {
  const Options& library = options.library;
  std::vector<std::string> argv = {program, "bench-worker"};
  const auto add = [&](const char* flag, const auto& value) { add_flag(argv, flag, value); };
  add("--role", options.role);
  add("--algorithm", options.algorithm);
  add("--job", library.job);
  add("--rank", library.rank);
  add("--world", library.world);
  add("--aggregator", library.aggregator);
  add("--coordinator", library.coordinator);
  add("--key-file", library.key_file);
  if (library.insecure) argv.emplace_back("--insecure");
  if (library.one_rank_per_host) argv.emplace_back("--one-rank-per-host");
  add("--ranks-per-host", options.ranks_per_host);
  add("--flows", library.flows);
  add("--window", library.window);
  add("--mtu", library.mtu);
  add("--timeout-ns", library.timeout.count());
  add("--loss", library.faults.loss);
  add("--dup", library.faults.duplicate);
  add("--reorder", library.faults.reorder);
  add("--delay-ns", library.faults.delay.count());
  add("--fault-seed", library.faults.seed);
  add("--check", options.check ? 1 : 0);
  add("--unalign", options.unalign);
  add("--seed", options.seed);
  add("--peer", options.peer);
  add("--port", options.port);
  return argv;
}

void add_bench_worker_command(CLI::App& app, int& exit_code) {
  CLI::App* const command = app.add_subcommand("bench-worker", "One rank of a bench");
  command->group("");  // Hidden: only the driver calls it.
  auto options = std::make_shared<WorkerOptions>();
  auto timeout_ns = std::make_shared<int64_t>(options->library.timeout.count());
  auto delay_ns = std::make_shared<int64_t>(0);
  add_worker_options(*command, *options, *timeout_ns, *delay_ns);
  command->callback([options, timeout_ns, delay_ns, &exit_code] {
    options->library.timeout = Duration(*timeout_ns);
    options->library.faults.delay = Duration(*delay_ns);
    exit_code = run_worker(*options);
  });
}

int serve_commands(WorkerRole& role, std::FILE* in, std::FILE* out) {
  Reply hello;
  hello.kind = Reply::Kind::kHello;
  hello.payload_bytes = role.payload_bytes();
  say(out, hello);
  char* line = nullptr;
  size_t room = 0;
  bool failed = false;
  for (ssize_t length = 0; !failed && (length = ::getline(&line, &room, in)) > 0;) {
    const std::string_view text(line, static_cast<size_t>(length - (line[length - 1] == '\n')));
    const Result<Command> command = command_from_line(text);
    const Reply reply = command ? obey(role, *command) : error_reply(command.error());
    failed = reply.kind == Reply::Kind::kError;
    say(out, reply);
  }
  std::free(line);
  return failed ? 1 : 0;
}

}  // namespace sumcast::cli

#include "cli/sparse_member.h"

#include <fmt/format.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/child_flags.h"
#include "cli/sparse_trainer.h"
#include "sparse/server.h"
#include "sparse/worker.h"

namespace sumcast::cli {
namespace {

void say(const std::string& line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

int say_error(const Error& error) {
  say(nlohmann::json{{"error", error.what}}.dump());
  return 1;
}

/// One command; its reply, or what went wrong.
Result<std::string> obey(SparseTrainer& trainer, const std::string& line) {
  std::istringstream words(line);
  std::string verb;
  words >> verb;
  if (verb == "prepare") {
    std::string name;
    words >> name;
    const auto path = sparse_paths(name);
    if (!path) return fail(path.error());
    if (auto ready = trainer.prepare(path->front()); !ready) return fail(ready.error());
    return std::string(R"({"ready": true})");
  }
  uint32_t rounds = 0;
  Instant start;
  if (verb != "run" || !(words >> rounds >> start.ns) || rounds == 0) {
    return fail(ErrorCode::kInternal, fmt::format("no such command: \"{}\"", line));
  }
  auto block = trainer.run(rounds, start);
  if (!block) return fail(block.error());
  return to_json_line(*block);
}

bool with_forward(const SparseFlags& flags) {
  const auto paths = sparse_paths(flags.paths);
  return paths && std::ranges::find(*paths, SparsePath::kForward) != paths->end();
}

int train(Context& context, const SparseMemberOptions& options, const sparse::Options& job) {
  auto worker = sparse::Worker::create(context, job);
  if (!worker) return say_error(worker.error());
  std::optional<Group> forward;
  if (with_forward(options.flags)) {
    auto group = make_forward_group(context);
    if (!group) return say_error(group.error());
    forward = std::move(*group);
  }
  auto trainer = SparseTrainer::create(**worker, options.flags, context, std::move(forward));
  if (!trainer) return say_error(trainer.error());
  say(R"({"ready": true})");
  char* text = nullptr;
  size_t room = 0;
  int code = 0;
  while (code == 0 && ::getline(&text, &room, stdin) > 0) {
    std::string line(text);
    line.erase(line.find_last_not_of('\n') + 1);
    const Result<std::string> reply = obey(**trainer, line);
    if (reply) {
      say(*reply);
    } else {
      code = say_error(reply.error());
    }
  }
  std::free(text);
  return code;
}

int serve(Context& context, const SparseFlags& flags, const sparse::Options& job) {
  auto server = sparse::Server::create(context, job);
  if (!server) return say_error(server.error());
  std::future<Result<void>> forwarding;
  if (with_forward(flags)) {
    auto group = make_forward_group(context);
    if (!group) return say_error(group.error());
    forwarding = std::async(std::launch::async, [&, group = std::move(*group)]() mutable {
      auto done = ForwardServer(std::move(group), job, context.rank()).run();
      if (!done) context.world().abort("server: " + done.error().what);
      return done;
    });
  }
  say(R"({"ready": true})");
  const auto served = (*server)->run();
  const auto forwarded = forwarding.valid() ? forwarding.get() : Result<void>();
  if (!served) return say_error(served.error());
  if (!forwarded) return say_error(forwarded.error());
  return 0;
}

int run_member(const SparseMemberOptions& options) {
  ::prctl(PR_SET_TIMERSLACK, 1);
  const auto job = sparse_options(options.flags);
  if (!job) return say_error(job.error());
  auto context = Context::create(options.library);
  if (!context) return say_error(context.error());
  return options.library.rank < job->workers ? train(**context, options, *job)
                                             : serve(**context, options.flags, *job);
}

}  // namespace

std::vector<std::string> sparse_member_argv(const std::string& program,
                                            const SparseMemberOptions& options) {
  const SparseFlags& flags = options.flags;
  const Options& library = options.library;
  std::vector<std::string> argv = {program, "sparse-member"};
  const auto add = [&](const char* flag, const auto& value) { add_flag(argv, flag, value); };
  add("--path", flags.paths);
  add("--skew", flags.skew);
  add("--workers", flags.workers);
  add("--servers", flags.servers);
  add("--batch", flags.batch);
  add("--width", flags.width);
  add("--vocabulary", flags.vocabulary);
  add("--text", flags.text);
  add("--optimizer", flags.optimizer);
  add("--wire", flags.wire);
  add("--row-wire", flags.row_wire);
  add("--rounds", flags.rounds);
  add("--flush-every", flags.flush_every);
  add("--hot-max", flags.hot_share_max);
  add("--segments", flags.segments);
  add("--staleness", flags.staleness);
  add("--seed", flags.seed);
  add("--job", library.job);
  add("--rank", library.rank);
  add("--aggregator", library.aggregator);
  add("--key-file", library.key_file);
  add("--loss", library.faults.loss);
  add("--fault-seed", library.faults.seed);
  return argv;
}

void add_sparse_member_command(CLI::App& app, int& exit_code) {
  CLI::App* const command = app.add_subcommand("sparse-member", "One member of a sparse bench");
  command->group("");  // Hidden: only the driver calls it.
  auto options = std::make_shared<SparseMemberOptions>();
  SparseFlags& flags = options->flags;
  Options& library = options->library;
  command->add_option("--path", flags.paths);
  command->add_option("--skew", flags.skew);
  command->add_option("--workers", flags.workers);
  command->add_option("--servers", flags.servers);
  command->add_option("--batch", flags.batch);
  command->add_option("--width", flags.width);
  command->add_option("--vocabulary", flags.vocabulary);
  command->add_option("--text", flags.text);
  command->add_option("--optimizer", flags.optimizer);
  command->add_option("--wire", flags.wire);
  command->add_option("--row-wire", flags.row_wire);
  command->add_option("--rounds", flags.rounds);
  command->add_option("--flush-every", flags.flush_every);
  command->add_option("--hot-max", flags.hot_share_max);
  command->add_option("--segments", flags.segments);
  command->add_option("--staleness", flags.staleness);
  command->add_option("--seed", flags.seed);
  command->add_option("--job", library.job);
  command->add_option("--rank", library.rank);
  command->add_option("--aggregator", library.aggregator);
  command->add_option("--key-file", library.key_file);
  command->add_option("--loss", library.faults.loss);
  command->add_option("--fault-seed", library.faults.seed);
  command->callback([options, &exit_code] {
    options->library.world = options->flags.workers + options->flags.servers;
    options->library.one_rank_per_host = true;  // On loopback all would share one.
    options->library.timeout = std::chrono::seconds(60);
    exit_code = run_member(*options);
  });
}

}  // namespace sumcast::cli

#include "cli/torch_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <system_error>

#include "cli/bench_site.h"
#include "cli/exit_codes.h"
#include "cli/torch_plan.h"
#include "lab/interrupt.h"
#include "runtime/environment.h"

namespace sumcast::cli {
namespace {

constexpr Duration kRunPatience = std::chrono::minutes(10);
constexpr Duration kExitPatience = 30s;

/// The interpreter that has torch and our package: of the environment that is active, or that
/// scripts/install-python.sh makes beside the build.
std::string find_python(const TorchFlags& flags) {
  if (!flags.python.empty()) return flags.python;
  if (const auto active = runtime::environment("VIRTUAL_ENV"); active && !active->empty()) {
    return *active + "/bin/python";
  }
  const std::string made = program_directory() + "/../../../.venv/bin/python";
  return ::access(made.c_str(), X_OK) == 0 ? made : "python3";
}

Result<BenchPlan> plan_of(const TorchFlags& flags) {
  BenchFlags bench;
  bench.workers = flags.workers;
  bench.ranks_per_host = flags.ranks_per_host;
  bench.rate = flags.rate;
  bench.loopback = flags.loopback;
  return plan_bench(bench);
}

/// What one rank of a contender finds in its environment.
Result<std::vector<std::string>> environment_of(BenchSite& site, const TorchContender& contender,
                                                uint32_t rank, uint16_t port) {
  const BenchPlan& plan = site.plan();
  const auto node = lab::Node::of_worker(plan.host_of(rank));
  std::vector<std::string> env = {
      fmt::format("RANK={}", rank),
      fmt::format("WORLD_SIZE={}", plan.flags.workers),
      fmt::format("LOCAL_RANK={}", rank % plan.flags.ranks_per_host),
      fmt::format("MASTER_ADDR={}", site.cluster().address(lab::Node::of_worker(0))),
      fmt::format("MASTER_PORT={}", port),
      "OMP_NUM_THREADS=1",
      "TORCH_CPP_LOG_LEVEL=ERROR",  // Namespaces have no names, which torch finds worth a line.
      fmt::format("SUMCAST_WIRE={}", contender.wire),
      fmt::format("SUMCAST_ALGORITHM={}",
                  contender.backend == "gloo" ? std::string("auto") : contender.algo)};
  if (site.cluster().has_links()) {
    env.push_back("GLOO_SOCKET_IFNAME=" + site.cluster().interface(node));
  }
  if (contender.algo == "in-network") {
    const Result<std::string> daemon = site.daemon_address(/*on_server=*/false);
    if (!daemon) return fail(daemon.error());
    env.push_back("SUMCAST_AGGREGATOR=" + *daemon);
    env.push_back("SUMCAST_KEY_FILE=" + site.key_file());
  }
  return env;
}

Result<TorchRow> run_once(BenchSite& site, const TorchFlags& flags, const std::string& model,
                          const TorchContender& contender) {
  const std::vector<std::string> argv = {find_python(flags),
                                         "-m",
                                         "sumcast.bench",
                                         "--backend",
                                         contender.backend,
                                         "--model",
                                         model,
                                         "--steps",
                                         std::to_string(flags.steps),
                                         "--warmup",
                                         std::to_string(flags.warmup)};
  const uint16_t port = site.next_port();
  std::vector<lab::Process> ranks;
  for (uint32_t rank = 0; rank < flags.workers; ++rank) {
    auto env = environment_of(site, contender, rank, port);
    if (!env) return fail(env.error());
    lab::SpawnOptions spawning;
    spawning.env = std::move(*env);
    spawning.output = rank == 0 ? lab::Redirect::pipe() : lab::Redirect::null();
    auto process =
        site.cluster().spawn(lab::Node::of_worker(site.plan().host_of(rank)), argv, spawning);
    if (!process) return fail(process.error());
    ranks.push_back(std::move(*process));
  }
  const Result<std::string> line = ranks[0].read_line(kRunPatience);
  if (!line) {
    return fail(line.error().within(fmt::format(
        "{} over {} ended without a result (is the package there? {} -m sumcast.bench --help)",
        model, contender.algo, argv[0])));
  }
  Result<TorchRow> row = torch_row_from_line(*line);
  for (lab::Process& process : ranks) {
    const auto ended = process.wait(kExitPatience);
    if (row && (!ended || !ended->ok())) {
      return fail(ErrorCode::kInternal,
                  fmt::format("{} over {}: a rank did not end well: {}", model, contender.algo,
                              ended ? ended->describe() : ended.error().what));
    }
  }
  if (!row) return fail(row.error().within(fmt::format("{} over {}", model, contender.algo)));
  row->model = model;
  row->contender = contender;
  row->ranks = flags.workers;
  row->hosts = site.plan().hosts();
  row->rate_bps = static_cast<double>(site.plan().rate_bits_per_second);
  return row;
}

Result<void> run_all(const TorchFlags& flags) {
  const auto plan = plan_of(flags);
  if (!plan) return fail(plan.error());
  const auto models = torch_models(flags.models);
  if (!models) return fail(models.error());
  const auto contenders = torch_contenders(flags.contenders);
  if (!contenders) return fail(contenders.error());
  const std::string& python = flags.python;
  if (python.find('/') != std::string::npos && ::access(python.c_str(), X_OK) != 0) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("--python {}: {}", python, std::generic_category().message(errno)));
  }
  auto site = BenchSite::create(*plan);
  if (!site) return fail(site.error());
  const bool shows_progress = ::isatty(STDERR_FILENO) == 1;
  std::vector<TorchRow> rows;
  for (const std::string& model : *models) {
    for (const TorchContender& contender : *contenders) {
      if (shows_progress) {
        fmt::print(stderr, "\r\x1b[K{}/{}: {} over {} {}", rows.size() + 1,
                   models->size() * contenders->size(), model, contender.algo, contender.wire);
      }
      Result<TorchRow> row = run_once(**site, flags, model, contender);
      if (shows_progress) fmt::print(stderr, "\r\x1b[K");
      if (!row) return fail(row.error());
      if (flags.json) {
        fmt::print("{}\n", to_json_line(*row));
        std::fflush(stdout);
      }
      rows.push_back(std::move(*row));
    }
  }
  if (!flags.json) fmt::print("{}", torch_table(rows));
  return {};
}

int run_command(const TorchFlags& flags) {
  const lab::ScopedInterrupt interrupt;
  const Result<void> done = run_all(flags);
  if (done) return 0;
  const int signal = lab::ScopedInterrupt::signal_number();
  fmt::print(stderr, "sumcast bench torch: {}\n", signal != 0 ? "interrupted" : done.error().what);
  if (signal != 0) return 128 + signal;
  return exit_code_of(done.error());
}

}  // namespace

CLI::App* add_torch_command(CLI::App& bench, int& exit_code) {
  CLI::App* const command =
      bench.add_subcommand("torch", "Training steps of PyTorch over this backend and over gloo");
  auto flags = std::make_shared<TorchFlags>();
  command->footer(
      "Example:\n"
      "  sumcast bench torch --rate 300mbit --python .venv/bin/python");
  command->add_option("--model", flags->models, "resnet18, embedding")->default_str(flags->models);
  command->add_option("--backend", flags->contenders, "gloo, in-network, direct; :bf16 behind ours")
      ->default_str(flags->contenders);
  command->add_option("--workers", flags->workers, "Ranks")->check(CLI::Range(1, 64));
  command->add_option("--ranks-per-host", flags->ranks_per_host,
                      "So many share a host and its link");
  command->add_option("--rate", flags->rate, "Of each host's link, such as 300mbit");
  command->add_option("-n,--steps", flags->steps, "Timed steps")->check(CLI::Range(1, 100000));
  command->add_option("-w,--warmup", flags->warmup, "Steps before them");
  command->add_option("--python", flags->python, "Interpreter that has torch and sumcast");
  command->add_flag("--json", flags->json, "One object per row");
  command->add_flag("--loopback", flags->loopback, "Processes on loopback, no namespaces");
  command->callback([flags, &exit_code] { exit_code = run_command(*flags); });
  return command;
}

}  // namespace sumcast::cli

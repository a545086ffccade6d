#include "cli/bench_command.h"

#include <fmt/format.h>

#include <cstdio>
#include <fstream>

#include "cli/bench_driver.h"
#include "cli/bench_output.h"
#include "cli/bench_worker.h"
#include "cli/convergence_command.h"
#include "cli/exit_codes.h"
#include "cli/kernel_command.h"
#include "cli/pipe_command.h"
#include "cli/sparse_command.h"
#include "cli/torch_command.h"
#include "lab/interrupt.h"

namespace sumcast::cli {
namespace {

int report_error(const Error& error, int code) {
  fmt::print(stderr, "sumcast bench: {}\n", error.what);
  return code;
}

/// As it was typed, for the document of -J.
std::vector<std::string> command_line() {
  std::ifstream file("/proc/self/cmdline");
  std::vector<std::string> args;
  for (std::string arg; std::getline(file, arg, '\0');) args.push_back(arg);
  return args;
}

int run_bench(const BenchFlags& flags, const std::vector<std::string>& args) {
  const Result<BenchPlan> plan = plan_bench(flags);
  if (!plan) return report_error(plan.error(), kExitUsage);
  // Namespaces come first: a process with threads cannot enter one of users any more.
  const lab::ScopedInterrupt interrupt;
  const auto failure = [](const Error& error) {
    const int signal = lab::ScopedInterrupt::signal_number();
    if (signal == 0) return report_error(error, kExitFailed);
    return report_error({ErrorCode::kAborted, "interrupted"}, 128 + signal);
  };
  Result<std::unique_ptr<BenchSite>> site = BenchSite::create(*plan);
  if (!site) return failure(site.error());
  auto contenders = start_contenders(**site);
  if (!contenders) return failure(contenders.error());
  BenchOutput output(*plan, args);
  output.begin();
  const Result<void> measured = measure_all(
      **site, *contenders,
      [&](const Contender& contender, const BenchCase& bench, const Tally& tally) {
        output.on_row(contender, bench, tally);
      },
      [&](const BenchCase& bench, uint32_t round, uint32_t rounds) {
        output.on_round(bench, round, rounds);
      });
  if (!measured) return failure(measured.error());
  const Result<int> code = output.finish();
  return code ? *code : report_error(code.error(), kExitFailed);
}

}  // namespace

void add_bench_command(CLI::App& app, int& exit_code) {
  CLI::App* const command =
      app.add_subcommand("bench", "Time collectives, ours and others', in a cluster built for it");
  auto flags = std::make_shared<BenchFlags>();
  add_bench_flags(*command, *flags);
  add_kernel_command(*command, exit_code);
  add_torch_command(*command, exit_code);
  add_sparse_command(*command, exit_code);
  add_pipe_command(*command, exit_code);
  add_convergence_command(*command, exit_code);
  // Last: commands under this one would have it, too.
  command->footer(
      "Examples:\n"
      "  sumcast bench -b 25M --workers 8 --rate 300mbit --algo in-network,direct --peer gloo\n"
      "  sumcast bench -b 8 -e 4K -f 8 --workers 8 --peer gloo,openmpi\n"
      "  sumcast bench -b 16M --insecure --algo in-network,wire");
  command->callback([command, flags, &exit_code] {
    if (!command->get_subcommands().empty()) return;
    exit_code = run_bench(*flags, command_line());
  });
  add_bench_worker_command(app, exit_code);
  add_pipe_worker_command(app, exit_code);
}

}  // namespace sumcast::cli

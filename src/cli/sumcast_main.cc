// The program `sumcast`: one command per thing that people do. Wiring only.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <sstream>

#include "cli/bench_command.h"
#include "cli/exit_codes.h"
#include "cli/hot_command.h"
#include "cli/keygen_command.h"
#include "cli/manual_command.h"
#include "cli/plan_command.h"
#include "cli/sparse_member.h"
#include "cli/train_command.h"
#include "cli/usage.h"
#if __has_include("cli/demo_command.h")
#include "cli/demo_command.h"
#endif
#if __has_include("cli/status_command.h")
#include "cli/status_command.h"
#endif

namespace {

int run(int argc, char** argv) {
  CLI::App app("Gradient aggregation for distributed training on ordinary Ethernet.", "sumcast");
  app.set_version_flag("--version", "sumcast " SUMCAST_VERSION);
  app.require_subcommand(1);
  int exit_code = 0;
#if __has_include("cli/demo_command.h")
  sumcast::cli::add_demo_command(app, exit_code);
#endif
  sumcast::cli::add_bench_command(app, exit_code);
  sumcast::cli::add_plan_command(app, exit_code);
#if __has_include("cli/status_command.h")
  sumcast::cli::add_status_command(app, exit_code);
#endif
  sumcast::cli::add_hot_command(app, exit_code);
  sumcast::cli::add_keygen_command(app, exit_code);
  sumcast::cli::add_sparse_member_command(app, exit_code);
  sumcast::cli::add_train_command(app, exit_code);
  sumcast::cli::add_manual_commands(app, exit_code);
  sumcast::cli::refuse_signs(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::ostringstream out, ignored;
    if (app.exit(error, out, ignored) == 0) {
      std::fputs(out.str().c_str(), stdout);
      return 0;
    }
    std::fprintf(stderr, "%s\n", sumcast::cli::usage_problem(app, argc, argv, error).c_str());
    return sumcast::cli::kExitUsage;
  }
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const int code = run(argc, argv);
    const std::string lost = sumcast::cli::finish_output();
    if (lost.empty()) return code;
    std::fprintf(stderr, "sumcast: %s\n", lost.c_str());
    return code != 0 ? code : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sumcast: %s\n", error.what());
    return 1;
  }
}

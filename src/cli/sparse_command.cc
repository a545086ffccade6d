#include "cli/sparse_command.h"

#include <fmt/format.h>

#include <memory>

#include "cli/exit_codes.h"
#include "cli/sparse_bench.h"
#include "cli/sparse_sweep.h"
#include "lab/interrupt.h"

namespace sumcast::cli {
namespace {

int run_command(const SparseFlags& flags) {
  const lab::ScopedInterrupt interrupt;
  const Result<void> done = flags.sweep ? run_sparse_sweep(flags) : run_sparse_bench(flags);
  if (done) return 0;
  const int signal = lab::ScopedInterrupt::signal_number();
  fmt::print(stderr, "sumcast bench sparse: {}\n", signal != 0 ? "interrupted" : done.error().what);
  if (signal != 0) return 128 + signal;
  return exit_code_of(done.error());
}

}  // namespace

CLI::App* add_sparse_command(CLI::App& bench, int& exit_code) {
  CLI::App* const command =
      bench.add_subcommand("sparse",
                           "Rounds of sparse training: over servers, and with hot keys "
                           "summed by the aggregator");
  auto flags = std::make_shared<SparseFlags>();
  command->footer(
      "Examples:\n"
      "  sumcast bench sparse --workers 8 --servers 1 --rate 300mbit\n"
      "  sumcast bench sparse --skew text --text debian-packages --path servers,dual\n"
      "  sumcast bench sparse --peer pslite=../ps-lite --json");
  command->add_option("--skew", flags->skew, "Of the keys: ctr, text, flat")
      ->default_str(flags->skew);
  command->add_option("--path", flags->paths, "servers, forward, dual, auto")
      ->default_str(flags->paths);
  command->add_option("--workers", flags->workers, "Workers")->check(CLI::Range(1, 128));
  command->add_option("--servers", flags->servers, "Servers")->check(CLI::Range(1, 64));
  command->add_option("--rate", flags->rate, "Of each member's link, such as 300mbit");
  command->add_option("--batch", flags->batch, "Rows of a worker's batch")
      ->check(CLI::Range(1, 1 << 20));
  command->add_option("--width", flags->width, "Lanes (f32) of a key's row")
      ->check(CLI::Range(1, 300));
  command->add_option("--vocabulary", flags->vocabulary, "Distinct keys of ctr and flat");
  command->add_option("--text", flags->text, "Of text: debian-packages, or a file");
  command->add_option("--optimizer", flags->optimizer, table::optimizer_names());
  command->add_option("--wire", flags->wire, "Gradients travel as fp32, bf16, fp16, int8");
  command->add_option(
      "--row-wire", flags->row_wire,
      "Rows travel to workers as fp32, bf16, fp16, int8; all read alike, hot or not");
  command->add_option("-n,--rounds", flags->rounds, "Of a timed block")
      ->check(CLI::Range(1, 100000));
  command->add_option("--repeats", flags->repeats, "Blocks of each path")
      ->check(CLI::Range(1, 1000));
  command->add_option("--flush-every", flags->flush_every, "Rounds between flushes; 0: never");
  command->add_option("--hot-max", flags->hot_share_max, "Most of the keys that may be hot");
  command->add_option("--segments", flags->segments, "Of each server; 0: what suits the batch")
      ->check(CLI::Range(0, 256));
  command
      ->add_option("--staleness", flags->staleness_list,
                   "Batches asked for ahead, or several numbers with commas: rows for each (not "
                   "of forward and peers)")
      ->default_str(flags->staleness_list);
  command->add_option("--seed", flags->seed, "Of batches and gradients");
  command->add_option("--loss", flags->loss, "Of datagrams, such as 0.01");
  command->add_option("--peer", flags->peer, "pslite=DIR: a ps-lite with its build, as one path");
  command->add_flag("--sweep", flags->sweep,
                    "Servers against dual over workers, servers, batches and widths");
  command->add_option("--out", flags->out, "Of a sweep: a file of rows; what is in it is not run");
  command->add_flag("--json", flags->json, "One object per path");
  command->add_flag("--loopback", flags->loopback, "Processes on loopback, no namespaces");
  command->callback([flags, &exit_code] { exit_code = run_command(*flags); });
  return command;
}

}  // namespace sumcast::cli

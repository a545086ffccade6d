// The flags of `sumcast bench`: nccl-tests' under their own names, then ours.
#include "cli/bench_command.h"

namespace sumcast::cli {
namespace {

void add_nccl_flags(CLI::App& app, BenchFlags& flags) {
  const std::string group = "As in nccl-tests";
  const auto add = [&](const char* name, auto& value, const char* help) {
    return app.add_option(name, value, help)->group(group);
  };
  add("-b,--minbytes", flags.bytes_min, "Smallest tensor, such as 8, 4K or 25M")
      ->default_str(flags.bytes_min);
  add("-e,--maxbytes", flags.bytes_max, "Largest tensor; default: as -b");
  add("-i,--stepbytes", flags.step_bytes, "Added from one size to the next")
      ->default_str(flags.step_bytes);
  add("-f,--stepfactor", flags.step_factor, "Or multiplied from one size to the next");
  add("-n,--iters", flags.iterations, "Timed iterations of each size")->default_str("20");
  add("-w,--warmup_iters", flags.warmup, "Iterations before them")->default_str("1");
  add("-c,--check", flags.check, "1: compare every element of every iteration; 0: do not")
      ->default_str("1");
  add("-o,--op", flags.op, "sum, prod, min, max, avg, and, or, xor, or all")->default_str("sum");
  add("-d,--datatype", flags.type, "float, double, half, bfloat16, int8, ..., or all")
      ->default_str("float");
  add("-r,--root", flags.root, "Root of reduce and broadcast")->default_str("0");
  add("-a,--average", flags.average, "Time over ranks: 0 rank 0, 1 mean, 2 min, 3 max")
      ->default_str("3");
  add("-N,--run_cycles", flags.cycles, "Sweeps over all sizes")->default_str("1");
  add("-C,--report_cputime", flags.cpu_time, "1: processor time of a rank instead of latency");
  add("-T,--timeout", flags.timeout_s, "Seconds for one operation")->default_str("60");
  add("-u,--unalign", flags.unalign, "Elements by which buffers are shifted");
  add("-S,--report_timestamps", flags.timestamps, "1: a time stamp after each row");
  add("-J,--output_file", flags.json_file, "Also write nccl-tests' JSON document");
  add("-I,--per_iteration", flags.per_iteration, "1: spread of the iterations under each row");
  add("-t,--nthreads", flags.threads_per_rank, "1: every rank is a process");
  add("-g,--ngpus", flags.devices_per_thread, "1: every rank is a process");
}

/// nccl-tests' flags that change nothing here, so that its command lines run as they are.
void add_ignored_flags(CLI::App& app) {
  for (const char* name : {"-m,--agg_iters", "-z,--blocking", "-p,--parallel_init"}) {
    app.add_option_function<int>(
           name, [](int) {}, "Taken and ignored")
        ->group("As in nccl-tests");
  }
}

void add_own_flags(CLI::App& app, BenchFlags& flags) {
  app.add_option("--workers", flags.workers, "Ranks, each on a host of its own unless:")
      ->default_str("4");
  app.add_option("--ranks-per-host", flags.ranks_per_host, "So many share a host and its link")
      ->default_str("1");
  app.add_option("--rate", flags.rate, "Of each worker's link, such as 300mbit; absent: unshaped");
  app.add_option("--algo", flags.algorithms,
                 "in-network,direct,ring,halving-doubling,server,auto,wire: one or several");
  app.add_option("--peer", flags.peers,
                 "gloo,openmpi,mpich: at their best algorithm, or gloo:ring and the like");
  app.add_option("--reference", flags.reference, "What ratios refer to; default: the first peer");
  app.add_option("--wire", flags.wire, "fp32, bf16, fp16, int8 or fixed")->default_str("fp32");
  app.add_option("--collective", flags.collective,
                 "all_reduce, reduce, broadcast, all_gather, reduce_scatter or barrier")
      ->default_str("all_reduce");
  app.add_option("--density", flags.density,
                 "Share of a rank's pieces of 64 bytes that are not zeros")
      ->default_str("1");
  app.add_option("--loss", flags.loss, "Share of datagrams that get lost, on every link");
  app.add_option("--dup", flags.duplicate, "Share that arrives twice");
  app.add_option("--reorder", flags.reorder, "Share that is overtaken by others");
  app.add_option("--delay", flags.delay, "Added to every datagram, such as 2ms");
  app.add_option("--skew", flags.skew,
                 "Ranks begin up to so far apart, as in training, such as 10ms; times count from "
                 "when the last begins");
  app.add_option("--seed", flags.seed, "Of faults, skew and data")->default_str("1");
  app.add_flag("--insecure", flags.insecure, "No keys and no tags");
  app.add_option("--flows", flags.flows, "UDP flows of a worker, 1 to 8")->default_str("1");
  app.add_option("--window", flags.window, "Datagrams in flight; default: by socket buffers");
  app.add_option("--mtu", flags.mtu, "Of all links")->default_str("1500");
  app.add_option("--threads", flags.daemon_threads, "Of sumcastd");
  app.add_option("--slots", flags.daemon_slots, "Of sumcastd, in each thread");
  app.add_option("--cpu", flags.daemon_cpus, "Processors for sumcastd, such as 0 or 0,2-3");
  app.add_flag("--json", flags.json, "One JSON object per row on standard output");
  app.add_flag("--loopback", flags.loopback, "Do not build a cluster: all on loopback");
}

}  // namespace

void add_bench_flags(CLI::App& app, BenchFlags& flags) {
  add_nccl_flags(app, flags);
  add_ignored_flags(app);
  add_own_flags(app, flags);
}

}  // namespace sumcast::cli

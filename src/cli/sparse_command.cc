#include "cli/sparse_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/bench_site.h"
#include "cli/bench_statistics.h"
#include "cli/sparse_member.h"
#include "lab/interrupt.h"
#include "runtime/clock.h"

namespace sumcast::cli {
namespace {

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;
constexpr Duration kJoinPatience = 120s;  // The text is read, and batches are drawn, by everybody.
constexpr Duration kRoundPatience = 60s;
constexpr Duration kDrainPatience = 10s;
constexpr Duration kLeavePatience = 10s;
constexpr uint32_t kStreamsPerPair = 2;  // One opened by each of worker and server.

/// What blocks of one path add up to.
struct PathTally {
  std::vector<double> round_us;
  std::vector<std::vector<uint64_t>> hashes;  // By block and worker.
  double worker_bytes = 0, server_bytes = 0, server_packets = 0;
  uint64_t rounds = 0, hot_pushed = 0, cold_pushed = 0, hot_keys = 0;
  std::string chosen;
};

class SparseCrew {
 public:
  SparseCrew(BenchSite& site, const SparseFlags& flags) : site_(site), flags_(flags) {}

  Result<void> start();
  /// One block.
  Result<void> turn(SparsePath path, PathTally& tally);
  Result<void> finish();

 private:
  Result<std::vector<std::string>> ask_workers(const std::string& line, Duration patience);
  Result<std::vector<std::string>> collect(size_t members, Duration patience);
  void count_links(const std::vector<lab::LinkCounters>& before,
                   const std::vector<lab::LinkCounters>& after, PathTally& tally) const;
  Error explain(size_t member, const Error& error);

  BenchSite& site_;
  const SparseFlags& flags_;
  std::vector<lab::Process> members_;
};

Result<void> SparseCrew::start() {
  SparseMemberOptions options;
  options.flags = flags_;
  options.library.job = "bench-sparse";
  options.library.key_file = site_.key_file();
  options.library.faults.loss = flags_.loss;
  auto daemon = site_.daemon_address(/*on_server=*/false);
  if (!daemon) return fail(daemon.error());
  options.library.aggregator = *daemon;
  lab::SpawnOptions spawning;
  spawning.input = lab::Redirect::pipe();
  spawning.output = lab::Redirect::pipe();
  for (uint32_t rank = 0; rank < flags_.workers + flags_.servers; ++rank) {
    options.library.rank = rank;
    options.library.faults.seed = flags_.seed * 1000 + rank + 1;
    auto process = site_.cluster().spawn(lab::Node::of_worker(static_cast<int>(rank)),
                                         sparse_member_argv(program_path(), options), spawning);
    if (!process) return fail(process.error());
    members_.push_back(std::move(*process));
  }
  auto ready = collect(members_.size(), kJoinPatience);
  if (!ready) return fail(ready.error());
  site_.forget_key_file();
  return {};
}

Error SparseCrew::explain(size_t member, const Error& error) {
  if (const auto failure = site_.daemon_failure()) return *failure;
  const std::string who = member < flags_.workers
                              ? fmt::format("worker {}", member)
                              : fmt::format("server {}", member - flags_.workers);
  if (const auto status = members_[member].poll(); status && status->signal != 0) {
    return {ErrorCode::kAborted, fmt::format("{} ended with {}", who, status->describe())};
  }
  return error.within(who);
}

/// A line of each of the first `members`.
Result<std::vector<std::string>> SparseCrew::collect(size_t members, Duration patience) {
  const Instant deadline = runtime::monotonic_now() + patience;
  std::vector<std::string> lines;
  for (size_t member = 0; member < members; ++member) {
    auto line =
        members_[member].read_line(std::max<Duration>(deadline - runtime::monotonic_now(), 0s));
    if (!line) return fail(explain(member, line.error()));
    const auto json = nlohmann::json::parse(*line, nullptr, /*allow_exceptions=*/false);
    if (json.is_object() && json.contains("error")) {
      return fail(explain(member, {ErrorCode::kAborted, json["error"].get<std::string>()}));
    }
    lines.push_back(std::move(*line));
  }
  return lines;
}

Result<std::vector<std::string>> SparseCrew::ask_workers(const std::string& line,
                                                         Duration patience) {
  for (uint32_t worker = 0; worker < flags_.workers; ++worker) {
    if (auto written = members_[worker].write_input(line + "\n"); !written) {
      return fail(explain(worker, written.error()));
    }
  }
  return collect(flags_.workers, patience);
}

void SparseCrew::count_links(const std::vector<lab::LinkCounters>& before,
                             const std::vector<lab::LinkCounters>& after, PathTally& tally) const {
  double busiest = 0;
  for (size_t member = 0; member < before.size(); ++member) {
    const auto up = after[member].up.bytes - before[member].up.bytes;
    const auto down = after[member].down.bytes - before[member].down.bytes;
    const auto bytes = static_cast<double>(up + down);
    if (member < flags_.workers) {
      busiest = std::max(busiest, bytes);
      continue;
    }
    tally.server_bytes += bytes;
    tally.server_packets +=
        static_cast<double>(after[member].up.packets - before[member].up.packets +
                            after[member].down.packets - before[member].down.packets);
  }
  tally.worker_bytes += busiest;
}

Result<void> SparseCrew::turn(SparsePath path, PathTally& tally) {
  auto ready = ask_workers(fmt::format("prepare {}", name_of(path)), kJoinPatience);
  if (!ready) return fail(ready.error());
  std::vector<lab::LinkCounters> before;
  if (site_.cluster().has_links()) {
    if (auto drained = site_.cluster().drain(kDrainPatience); !drained) return drained;
    auto counters = site_.cluster().all_counters();
    if (!counters) return fail(counters.error());
    before = std::move(*counters);
  }
  const Instant start = runtime::monotonic_now() + 2ms + members_.size() * 100us;
  auto lines = ask_workers(fmt::format("run {} {}", flags_.rounds, start.ns),
                           kRoundPatience + flags_.rounds * 1s);
  if (!lines) return fail(lines.error());
  if (site_.cluster().has_links()) {
    auto after = site_.cluster().all_counters();
    if (!after) return fail(after.error());
    count_links(before, *after, tally);
  }
  double slowest = 0;
  std::vector<uint64_t> hashes;
  for (const std::string& line : *lines) {
    auto block = sparse_block_from_line(line);
    if (!block) return fail(block.error());
    slowest = std::max(slowest, block->round_us);
    hashes.push_back(block->hash);
    tally.hot_pushed += block->hot_pushed;
    tally.cold_pushed += block->cold_pushed;
    tally.hot_keys = block->hot_keys;
    tally.chosen = block->chosen;
  }
  tally.round_us.push_back(slowest);
  tally.hashes.push_back(std::move(hashes));
  tally.rounds += flags_.rounds;
  return {};
}

Result<void> SparseCrew::finish() {
  for (uint32_t worker = 0; worker < flags_.workers; ++worker) members_[worker].close_input();
  for (size_t member = 0; member < members_.size(); ++member) {
    const auto ended = members_[member].wait(kLeavePatience);
    if (!ended) return fail(explain(member, ended.error()));
    if (!ended->ok()) return fail(explain(member, {ErrorCode::kAborted, ended->describe()}));
  }
  return {};
}

SparseRow row_of(SparsePath path, const PathTally& tally, const PathTally& first,
                 const SparseFlags& flags) {
  SparseRow row;
  row.path = path;
  row.round_us = median(tally.round_us);
  const auto rounds = static_cast<double>(tally.rounds);
  row.bytes_per_worker = tally.worker_bytes / rounds;
  row.server_bytes = tally.server_bytes / rounds;
  row.server_packets = tally.server_packets / rounds;
  row.server_flows = kStreamsPerPair * flags.workers * flags.servers;
  const uint64_t pushed = tally.hot_pushed + tally.cold_pushed;
  row.hot_share =
      pushed == 0 ? 0 : static_cast<double>(tally.hot_pushed) / static_cast<double>(pushed);
  row.hot_keys = tally.hot_keys;
  row.chosen = tally.chosen;
  for (size_t block = 0; block < tally.hashes.size(); ++block) {
    if (tally.hashes[block] != first.hashes[block]) ++row.wrong;
  }
  return row;
}

Result<void> run_bench(const SparseFlags& flags) {
  const auto options = sparse_options(flags);
  if (!options) return fail(options.error());
  const auto paths = sparse_paths(flags.paths);
  if (!paths) return fail(paths.error());
  BenchFlags bench;
  bench.workers = flags.workers + flags.servers;
  bench.rate = flags.rate;
  bench.loopback = flags.loopback;
  bench.loss = flags.loss;
  const auto plan = plan_bench(bench);
  if (!plan) return fail(plan.error());
  auto site = BenchSite::create(*plan);
  if (!site) return fail(site.error());
  const bool shows_progress = ::isatty(STDERR_FILENO) == 1;
  const auto progress = [&](const std::string& text) {
    if (shows_progress) fmt::print(stderr, "\r\x1b[K{}", text);
  };
  progress("starting workers and servers");
  SparseCrew crew(**site, flags);
  if (auto started = crew.start(); !started) return progress(""), started;
  std::vector<PathTally> tallies(paths->size());
  for (uint32_t repeat = 0; repeat < flags.repeats; ++repeat) {
    for (size_t i = 0; i < paths->size(); ++i) {
      progress(fmt::format("{}/{}: {}", repeat + 1, flags.repeats, name_of((*paths)[i])));
      if (auto done = crew.turn((*paths)[i], tallies[i]); !done) return progress(""), done;
    }
  }
  progress("");
  if (auto finished = crew.finish(); !finished) return finished;
  std::vector<SparseRow> rows;
  for (size_t i = 0; i < paths->size(); ++i) {
    rows.push_back(row_of((*paths)[i], tallies[i], tallies[0], flags));
    if (flags.json) fmt::print("{}\n", to_json_line(rows.back(), flags));
  }
  if (!flags.json) fmt::print("{}", sparse_table(rows, flags));
  const auto is_wrong = [](const SparseRow& row) { return row.wrong != 0; };
  if (std::ranges::any_of(rows, is_wrong)) {
    return fail(ErrorCode::kMismatch, "paths ended with different rows");
  }
  return {};
}

int run_command(const SparseFlags& flags) {
  const lab::ScopedInterrupt interrupt;
  const Result<void> done = run_bench(flags);
  if (done) return 0;
  const int signal = lab::ScopedInterrupt::signal_number();
  fmt::print(stderr, "sumcast bench sparse: {}\n", signal != 0 ? "interrupted" : done.error().what);
  if (signal != 0) return 128 + signal;
  return done.error().code == ErrorCode::kInvalidArgument ? kExitUsage : kExitFailed;
}

}  // namespace

CLI::App* add_sparse_command(CLI::App& bench, int& exit_code) {
  CLI::App* const command =
      bench.add_subcommand("sparse",
                           "Rounds of sparse training: over servers, and with hot keys "
                           "summed by the aggregator");
  auto flags = std::make_shared<SparseFlags>();
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
  command->add_option("-n,--rounds", flags->rounds, "Of a timed block")
      ->check(CLI::Range(1, 100000));
  command->add_option("--repeats", flags->repeats, "Blocks of each path")
      ->check(CLI::Range(1, 1000));
  command->add_option("--flush-every", flags->flush_every, "Rounds between flushes; 0: never");
  command->add_option("--hot-max", flags->hot_share_max, "Most of the keys that may be hot");
  command->add_option("--segments", flags->segments, "Of each server")->check(CLI::Range(1, 256));
  command->add_option("--seed", flags->seed, "Of batches and gradients");
  command->add_option("--loss", flags->loss, "Of datagrams, such as 0.01");
  command->add_flag("--json", flags->json, "One object per path");
  command->add_flag("--loopback", flags->loopback, "Processes on loopback, no namespaces");
  command->callback([flags, &exit_code] { exit_code = run_command(*flags); });
  return command;
}

}  // namespace sumcast::cli

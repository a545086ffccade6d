#include "cli/sparse_crew.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/bench_statistics.h"
#include "cli/sparse_member.h"
#include "runtime/clock.h"

namespace sumcast::cli {
namespace {

constexpr Duration kJoinPatience = 120s;  // The text is read, and batches are drawn, by everybody.
constexpr Duration kRoundPatience = 60s;
constexpr Duration kDrainPatience = 10s;
constexpr Duration kLeavePatience = 10s;
constexpr uint32_t kStreamsPerPair = 2;  // One opened by each of worker and server.

}  // namespace

Result<void> SparseCrew::spawn() {
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
  return {};
}

Result<void> SparseCrew::start() {
  if (auto spawned = spawn(); !spawned) return spawned;
  auto ready = collect(members_.size(), kJoinPatience);
  return ready ? Result<void>() : fail(ready.error());
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
    tally.server_drops += after[member].up.drops - before[member].up.drops;
    tally.server_drops += after[member].down.drops - before[member].down.drops;
  }
  tally.worker_bytes += busiest;
}

Result<void> SparseCrew::turn(std::string_view path, PathTally& tally) {
  auto ready =
      ask_workers(fmt::format("prepare {} {}", path, flags_.flush_every / 2), kJoinPatience);
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
  std::vector<uint64_t> hashes(flags_.workers);
  for (uint32_t worker = 0; worker < flags_.workers; ++worker) {
    auto block = sparse_block_from_line((*lines)[worker]);
    if (!block) return fail(block.error());
    slowest = std::max(slowest, block->round_us);
    // A peer gives its ranks as it likes.
    const uint32_t rank = block->rank.value_or(worker);
    if (rank >= flags_.workers) {
      return fail(ErrorCode::kInternal, fmt::format("a worker calls itself rank {}", rank));
    }
    hashes[rank] = block->hash;
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

SparseRow row_of(std::string_view path, const PathTally& tally, const PathTally& first,
                 const SparseFlags& flags) {
  SparseRow row;
  row.path = path;
  row.round_us = median(tally.round_us);
  const auto rounds = static_cast<double>(tally.rounds);
  row.bytes_per_worker = tally.worker_bytes / rounds;
  row.server_bytes = tally.server_bytes / rounds;
  row.server_packets = tally.server_packets / rounds;
  row.server_drops = tally.server_drops;
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

}  // namespace sumcast::cli

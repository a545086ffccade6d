#include "cli/kernel_command.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "auth/secret.h"
#include "auth/tag.h"
#include "base/assert.h"
#include "cli/float_table_study.h"
#include "numeric/fold.h"
#include "numeric/triad.h"
#include "report/table.h"
#include "report/units.h"
#include "runtime/clock.h"
#include "wire/header.h"

namespace sumcast::cli {
namespace {

constexpr int kRepetitions = 9;
constexpr Duration kShortest = 5ms;   // A repetition lasts at least this long.
constexpr size_t kChunkBytes = 1408;  // The payload of a full datagram at MTU 1500.
constexpr size_t kHeaderBytes = wire::kHeaderBytes;

struct KernelRow {
  std::string kernel;
  size_t sources = 0;
  std::string memory;
  size_t working_set_bytes = 0;
  double gigabytes_per_second = 0;
  double against_triad = 0;
};

struct ThreadRow {
  size_t sources = 0;
  bool tags = false;
  double gigabits_per_second = 0;  ///< Of contributions' payload.
};

/// One call's time in ns.
double time_of(const std::function<void()>& work, int calls) {
  const Instant began = runtime::monotonic_now();
  for (int i = 0; i < calls; ++i) work();
  return static_cast<double>((runtime::monotonic_now() - began).count()) / calls;
}

/// The best of several timings of two kinds of work, taken by turns, in ns a call. The best, as
/// STREAM has it: what a core can do, not what others left of it.
std::pair<double, double> time_by_turns(const std::function<void()>& one,
                                        const std::function<void()>& other) {
  const auto calls_for = [](const std::function<void()>& work) {
    work();  // Page faults and dispatch.
    return static_cast<int>(static_cast<double>(kShortest.count()) / time_of(work, 1)) + 1;
  };
  const int calls_one = calls_for(one), calls_other = calls_for(other);
  double best_one = time_of(one, calls_one), best_other = time_of(other, calls_other);
  for (int i = 1; i < kRepetitions; ++i) {
    best_one = std::min(best_one, time_of(one, calls_one));
    best_other = std::min(best_other, time_of(other, calls_other));
  }
  return {best_one, best_other};
}

void stay_on_this_processor() {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(std::max(::sched_getcpu(), 0)), &set);
  (void)::sched_setaffinity(0, sizeof(set), &set);
}

/// A fold of `sources` arrays against the triad; both move `bytes` in all per call.
std::pair<KernelRow, KernelRow> time_fold(std::vector<float>& memory, size_t sources,
                                          const std::string& where) {
  const size_t fold_lanes = memory.size() / (sources + 1);
  const size_t triad_lanes = memory.size() / 3;
  std::vector<const std::byte*> inputs;
  for (size_t i = 0; i < sources; ++i) {
    inputs.push_back(reinterpret_cast<const std::byte*>(memory.data() + i * fold_lanes));
  }
  float* const sum = memory.data() + sources * fold_lanes;
  const auto fold = [&] {
    numeric::fold(ElementType::kF32, Reduction::kSum, inputs.data(), sources, fold_lanes, 1,
                  reinterpret_cast<std::byte*>(sum));
  };
  const auto triad = [&] {
    numeric::triad(memory.data(), memory.data() + triad_lanes, 0.5f,
                   memory.data() + 2 * triad_lanes, triad_lanes);
  };
  const auto [fold_ns, triad_ns] = time_by_turns(fold, triad);
  const size_t bytes = memory.size() * sizeof(float);
  const auto rate = [](size_t lanes, size_t arrays, double ns) {
    return static_cast<double>(lanes * arrays * sizeof(float)) / ns;
  };
  const double triad_rate = rate(triad_lanes, 3, triad_ns);
  const double fold_rate = rate(fold_lanes, sources + 1, fold_ns);
  return {{"triad", 2, where, bytes, triad_rate, 1.0},
          {"fold", sources, where, bytes, fold_rate, fold_rate / triad_rate}};
}

auth::DatagramKey bench_key(uint8_t seed) {
  auth::DatagramKey key;
  key.bytes.fill(std::byte(seed));
  return key;
}

/// Everything but sockets that a thread does to the contributions of `sources` workers.
ThreadRow time_thread(size_t sources, bool tags) {
  // As many datagrams as one batch from each worker has; they stay in the cache as receive buffers
  // of a batch do.
  constexpr size_t kBatch = 44;
  const size_t stride = kHeaderBytes + kChunkBytes + auth::kTagBytes;
  std::vector<std::byte> datagrams(sources * kBatch * stride), result(stride);
  std::vector<auth::Tagger> members;
  for (size_t rank = 0; rank < sources; ++rank) {
    members.emplace_back(bench_key(static_cast<uint8_t>(rank)));
  }
  auth::Tagger shard(bench_key(200));
  const auto body = [&](size_t rank, size_t i) {
    return std::span<std::byte>(datagrams).subspan((rank * kBatch + i) * stride, stride);
  };
  for (size_t rank = 0; tags && rank < sources; ++rank) {
    for (size_t i = 0; i < kBatch; ++i) {
      const auto datagram = body(rank, i);
      members[rank].sign(static_cast<uint16_t>(rank), i + 1, datagram.first(kHeaderBytes),
                         datagram.subspan(kHeaderBytes, kChunkBytes),
                         datagram.data() + kHeaderBytes + kChunkBytes);
    }
  }
  uint64_t counter = 0, refused = 0;
  std::vector<const std::byte*> lanes(sources);
  const auto work = [&] {
    for (size_t i = 0; i < kBatch; ++i) {
      for (size_t rank = 0; rank < sources; ++rank) {
        const auto datagram = body(rank, i);
        const auto signed_part = datagram.first(kHeaderBytes + kChunkBytes);
        if (tags && !members[rank].verify(static_cast<uint16_t>(rank), i + 1, signed_part,
                                          datagram.data() + signed_part.size())) {
          ++refused;
        }
        lanes[rank] = datagram.data() + kHeaderBytes;
      }
      numeric::fold(ElementType::kF32, Reduction::kSum, lanes.data(), sources,
                    kChunkBytes / sizeof(float), 1, result.data() + kHeaderBytes);
      if (!tags) continue;
      shard.sign(wire::kShardBit, ++counter, {result.data(), kHeaderBytes},
                 {result.data() + kHeaderBytes, kChunkBytes},
                 result.data() + kHeaderBytes + kChunkBytes);
    }
  };
  const double ns = time_by_turns(work, [] {}).first;
  SUMCAST_ASSERT(refused == 0);
  return {sources, tags, static_cast<double>(sources * kBatch * kChunkBytes * 8) / ns};
}

size_t cache_bytes(int name, size_t otherwise) {
  const long bytes = ::sysconf(name);
  return bytes > 0 ? static_cast<size_t>(bytes) : otherwise;
}

std::vector<KernelRow> time_folds() {
  // DRAM: far beyond the last cache. L2: half of it, so that nothing else evicts much.
  const size_t last_cache = cache_bytes(_SC_LEVEL3_CACHE_SIZE, 32u << 20);
  const size_t dram = std::clamp<size_t>(4 * last_cache, 192u << 20, 768u << 20);
  const size_t l2 = cache_bytes(_SC_LEVEL2_CACHE_SIZE, 1u << 20) / 2;
  std::vector<KernelRow> rows;
  for (const auto& [bytes, where] : {std::pair{dram, "DRAM"}, std::pair{l2, "L2"}}) {
    std::vector<float> memory(bytes / sizeof(float), 1.0f);
    for (const size_t sources : {2u, 3u, 4u, 8u}) {
      auto [triad, fold] = time_fold(memory, sources, where);
      if (sources == 2) rows.push_back(std::move(triad));
      rows.push_back(std::move(fold));
    }
  }
  return rows;
}

void print_json(const std::vector<KernelRow>& folds, const std::vector<ThreadRow>& threads) {
  using Json = nlohmann::ordered_json;
  for (const KernelRow& row : folds) {
    const Json json = {{"kernel", row.kernel},
                       {"sources", row.sources},
                       {"memory", row.memory},
                       {"working_set_bytes", row.working_set_bytes},
                       {"GBps", row.gigabytes_per_second},
                       {"vs_triad", row.against_triad}};
    fmt::print("{}\n", json.dump());
  }
  for (const ThreadRow& row : threads) {
    const Json json = {{"kernel", "daemon-thread"},
                       {"sources", row.sources},
                       {"tags", row.tags},
                       {"gbit_per_s", row.gigabits_per_second}};
    fmt::print("{}\n", json.dump());
  }
}

void print_tables(const std::vector<KernelRow>& folds, const std::vector<ThreadRow>& threads) {
  report::Table kernels({{"kernel", report::Align::kLeft},
                         {"sources"},
                         {"memory", report::Align::kLeft},
                         {"working set"},
                         {"GB/s"},
                         {"of triad"}});
  for (const KernelRow& row : folds) {
    kernels.add_row({row.kernel, std::to_string(row.sources), row.memory,
                     report::format_bytes(static_cast<double>(row.working_set_bytes)),
                     fmt::format("{:.1f}", row.gigabytes_per_second),
                     report::format_percent(row.against_triad)});
  }
  fmt::print("One core; bytes of all streams, read and written.\n{}\n", kernels.to_string());
  report::Table thread({{"workers"}, {"tags", report::Align::kLeft}, {"Gbit/s"}});
  for (const ThreadRow& row : threads) {
    thread.add_row({std::to_string(row.sources), row.tags ? "on" : "off",
                    fmt::format("{:.1f}", row.gigabits_per_second)});
  }
  fmt::print(
      "One daemon thread without its sockets: contributions of {} bytes verified, folded, and the\n"
      "result signed; Gbit/s of contributions of all workers together.\n{}",
      kChunkBytes, thread.to_string());
}

void run_kernel(bool json) {
  stay_on_this_processor();
  const std::vector<KernelRow> folds = time_folds();
  std::vector<ThreadRow> threads;
  for (const bool tags : {true, false}) {
    for (const size_t sources : {2u, 4u, 8u}) threads.push_back(time_thread(sources, tags));
  }
  if (json) {
    print_json(folds, threads);
  } else {
    print_tables(folds, threads);
  }
}

void run_float_table(bool json) {
  const FloatTableStudy study;
  const auto rows = run_float_table_study(study);
  fmt::print("{}", json ? float_table_json(rows) : float_table_text(study, rows));
}

}  // namespace

CLI::App* add_kernel_command(CLI::App& bench, int& exit_code) {
  CLI::App* const command =
      bench.add_subcommand("kernel", "Time the addition itself, and what one daemon thread does");
  struct Flags {
    bool json = false;
    bool float_table = false;
  };
  auto flags = std::make_shared<Flags>();
  command->footer("Example:\n  sumcast bench kernel");
  command->add_flag("--float-table", flags->float_table,
                    "Not times but errors: of sums by lookup table, as a switch makes them");
  command->add_flag("--json", flags->json, "One JSON object per row");
  command->callback([flags, &exit_code] {
    if (flags->float_table) {
      run_float_table(flags->json);
    } else {
      run_kernel(flags->json);
    }
    exit_code = 0;
  });
  return command;
}

}  // namespace sumcast::cli

#include "peer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>

namespace sumcast::peers {
namespace {

const std::map<std::string, Collective> kCollectives = {
    {"all_reduce", Collective::kAllReduce},         {"reduce", Collective::kReduce},
    {"broadcast", Collective::kBroadcast},          {"all_gather", Collective::kAllGather},
    {"reduce_scatter", Collective::kReduceScatter}, {"barrier", Collective::kBarrier},
};

std::string name_of(Collective collective) {
  for (const auto& [name, value] : kCollectives) {
    if (value == collective) return name;
  }
  return "?";
}

// Data repeat with this period in the index, so that expectations are one small table. Small
// integers add exactly in float, in any order, up to 2^24 / 63 ranks.
constexpr size_t kPeriod = 64;

float value_at(int rank, size_t index) {
  return static_cast<float>((static_cast<size_t>(rank) * 37 + index * 11) % kPeriod);
}

void allocate(Buffers& buffers, Collective collective, size_t bytes, size_t world) {
  buffers.elements = std::max<size_t>(bytes / sizeof(float), 1);
  const bool split =
      collective == Collective::kAllGather || collective == Collective::kReduceScatter;
  if (split) {
    buffers.block = std::max<size_t>(buffers.elements / world, 1);
    buffers.elements = buffers.block * world;
  }
  const bool has_input = split || collective == Collective::kReduce;
  const size_t input = collective == Collective::kAllGather ? buffers.block : buffers.elements;
  buffers.input.assign(has_input ? input : 0, 0.0f);
  buffers.output.assign(buffers.elements, 0.0f);
}

void fill(Buffers& buffers, Collective collective, int rank) {
  for (size_t i = 0; i < buffers.input.size(); ++i) buffers.input[i] = value_at(rank, i);
  const bool contributes =
      collective == Collective::kAllReduce || (collective == Collective::kBroadcast && rank == 0);
  for (size_t i = 0; i < buffers.output.size(); ++i) {
    buffers.output[i] = contributes ? value_at(rank, i) : -1.0f;
  }
}

using Table = std::array<float, kPeriod>;

Table table_of_sums(int world) {
  Table sums{};
  for (size_t i = 0; i < kPeriod; ++i) {
    for (int rank = 0; rank < world; ++rank) sums[i] += value_at(rank, i);
  }
  return sums;
}

size_t count_wrong(const Buffers& buffers, Collective collective, const Peer& peer,
                   const Table& sums) {
  const float* const result = peer.result(collective, buffers);
  size_t wrong = 0;
  const auto compare = [&](size_t count, auto expected) {
    for (size_t i = 0; i < count; ++i) wrong += result[i] != expected(i) ? 1u : 0u;
  };
  const auto sum_at = [&](size_t i) { return sums[i % kPeriod]; };
  switch (collective) {
    case Collective::kReduce:
      if (peer.rank() == 0) compare(buffers.elements, sum_at);
      break;
    case Collective::kAllReduce:
      compare(buffers.elements, sum_at);
      break;
    case Collective::kBroadcast:
      compare(buffers.elements, [](size_t i) { return value_at(0, i); });
      break;
    case Collective::kAllGather:
      compare(buffers.elements, [&](size_t i) {
        return value_at(static_cast<int>(i / buffers.block), i % buffers.block);
      });
      break;
    case Collective::kReduceScatter:
      compare(buffers.block, [&](size_t i) {
        return sum_at(static_cast<size_t>(peer.rank()) * buffers.block + i);
      });
      break;
    case Collective::kBarrier:
      break;
  }
  return wrong;
}

// The driver's turn: it drains links, reads counters, and sends a line when it is done. The other
// ranks wait in the barrier that starts the next iteration.
void wait_for_driver() {
  std::puts("ready");
  std::fflush(stdout);
  std::string line;
  if (!std::getline(std::cin, line)) std::exit(1);  // The driver is gone.
}

struct Measurement {
  std::vector<double> times_us;
  double wrong = 0;
};

Measurement measure(const Arguments& arguments, Peer& peer, size_t bytes) {
  Buffers buffers;
  allocate(buffers, arguments.collective, bytes, static_cast<size_t>(peer.world()));
  const Table sums = table_of_sums(peer.world());
  peer.prepare(arguments.collective, buffers);
  Measurement measured;
  for (int i = 0; i < arguments.warmup + arguments.iterations; ++i) {
    if (arguments.check) fill(buffers, arguments.collective, peer.rank());
    peer.barrier();
    const auto begin = std::chrono::steady_clock::now();
    for (int k = 0; k < arguments.block; ++k) peer.run(arguments.collective, buffers);
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    if (i >= arguments.warmup) measured.times_us.push_back(took.count() / arguments.block);
    if (arguments.check) {
      measured.wrong += static_cast<double>(count_wrong(buffers, arguments.collective, peer, sums));
    }
    if (arguments.step && peer.rank() == 0) wait_for_driver();
  }
  peer.maximum(measured.times_us);
  std::vector<double> wrong = {measured.wrong};
  peer.maximum(wrong);
  measured.wrong = wrong[0];
  return measured;
}

}  // namespace

Arguments parse_arguments(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("A peer of the Sumcast bench: times collectives of another library.");
  app.add_option("--rank", arguments.rank, "Rank of this process (gloo; MPI knows)");
  app.add_option("--world", arguments.world, "Number of ranks (gloo; MPI knows)");
  app.add_option("--root-dir", arguments.root_directory,
                 "Shared directory, empty at start, where ranks find each other (gloo)");
  app.add_option("--interface", arguments.interface, "Network interface of this rank (gloo)");
  app.add_option("--address", arguments.address, "Address of this rank, instead (gloo)");
  app.add_option("--sizes", arguments.sizes, "Bytes of the whole buffer, comma-separated")
      ->delimiter(',');
  app.add_option("--iters", arguments.iterations, "Measured iterations per size");
  app.add_option("--warmup", arguments.warmup, "Iterations before them");
  app.add_option("--block", arguments.block,
                 "Operations in one timed iteration, back to back; the time is divided by it")
      ->check(CLI::Range(1, 1000));
  app.add_option("--collective", arguments.collective, "Operation to time")
      ->transform(CLI::CheckedTransformer(kCollectives));
  app.add_option("--check", arguments.check, "Compare results with exact sums: 0 or 1");
  app.add_option("--algorithm", arguments.algorithm,
                 "gloo: auto, ring, bcube, halving_doubling, ring_chunked; MPI: label only");
  app.add_option("--yield", arguments.yield,
                 "MPI: yield while waiting, 0 or 1; default 1 for MPICH");
  app.add_flag("--step", arguments.step,
               "After each iteration rank 0 prints 'ready' and waits for a line on stdin");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  }
  if (arguments.block > 1 && arguments.check) {
    fmt::print(stderr, "--block needs --check 0: in place, a second sum is another one\n");
    std::exit(2);
  }
  return arguments;
}

int run_peer(const char* name, const Arguments& arguments, Peer& peer) {
  bool right = true;
  for (const size_t bytes : arguments.sizes) {
    const Measurement measured = measure(arguments, peer, bytes);
    right = right && measured.wrong == 0;
    if (peer.rank() != 0) continue;
    fmt::print(
        "{{\"peer\":\"{}\",\"algorithm\":\"{}\",\"collective\":\"{}\",\"bytes\":{},\"world\":{},"
        "\"checked\":{},\"wrong\":{:.0f},\"times_us\":[{:.1f}]}}\n",
        name, arguments.algorithm, name_of(arguments.collective), bytes, peer.world(),
        arguments.check, measured.wrong, fmt::join(measured.times_us, ","));
    std::fflush(stdout);
  }
  return right ? 0 : 1;
}

}  // namespace sumcast::peers

// A node of the comparison in merge_bench_main.cc: a program for ps-lite whose pushes only add.
//
//   sumcast-bench-merge-node ROUNDS BATCH WIDTH KIND PULL
//
//   ROUNDS  measured, after a tenth as many unmeasured
//   BATCH   rows of a worker's round; KIND of keys: ctr, flat, text
//   WIDTH   floats for each key
//   PULL    1: each round pulls its keys before it pushes them
//
// Worker 0 prints the mean time of a round over all workers' span, the server what its handler saw.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "base/prng.h"
#include "dataset/key_stream.h"
#include "ps/ps.h"

namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  int rounds;
  size_t batch, width;
  const char* kind;
  bool pull;
};

/// Adds rows of `width` floats.
struct Table {
  size_t width;
  std::unordered_map<ps::Key, size_t> places;
  std::vector<float> rows;
  size_t pushes = 0, keys = 0;

  size_t place(ps::Key key) {
    const auto added = places.try_emplace(key, rows.size());
    if (added.second) rows.resize(rows.size() + width);
    return added.first->second;
  }

  void operator()(const ps::KVMeta& meta, const ps::KVPairs<float>& pairs,
                  ps::KVServer<float>* server) {
    ps::KVPairs<float> response;
    if (meta.push) {
      ++pushes;
      keys += pairs.keys.size();
      for (size_t i = 0; i < pairs.keys.size(); ++i) {
        float* const row = &rows[place(pairs.keys[i])];
        for (size_t j = 0; j < width; ++j) row[j] += pairs.vals[i * width + j];
      }
    }
    if (meta.pull) {
      response.keys = pairs.keys;
      response.vals.resize(pairs.keys.size() * width);
      for (size_t i = 0; i < pairs.keys.size(); ++i) {
        const size_t at = place(pairs.keys[i]);
        std::copy_n(&rows[at], width, &response.vals[i * width]);
      }
    }
    server->Response(meta, response);
  }
};

/// The distinct keys of a batch, sorted.
std::vector<ps::Key> draw(const sumcast::dataset::KeyStream& stream, size_t rows,
                          sumcast::Prng& prng) {
  std::vector<uint64_t> keys;
  stream.next_batch(rows, prng, keys);
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  return {keys.begin(), keys.end()};
}

void work(const Options& options) {
  const auto stream = sumcast::dataset::make_key_stream(options.kind);
  CHECK(stream.has_value()) << stream.error().what;
  sumcast::Prng prng(1000 + static_cast<uint64_t>(ps::MyRank()));
  ps::KVWorker<float> kv(0, 0);
  const int warm = options.rounds / 10 + 1, total = warm + options.rounds;
  std::vector<std::vector<ps::Key>> batches;  // Drawn beforehand: drawing is not what is measured.
  for (int i = 0; i < total; ++i) batches.push_back(draw(**stream, options.batch, prng));
  ps::Postoffice::Get()->Barrier(0, ps::kWorkerGroup);
  Clock::time_point begin;
  std::vector<float> pulled;
  for (int i = 0; i < total; ++i) {
    if (i == warm) {
      ps::Postoffice::Get()->Barrier(0, ps::kWorkerGroup);
      begin = Clock::now();
    }
    const auto& keys = batches[static_cast<size_t>(i)];
    if (options.pull) {
      pulled.clear();
      kv.Wait(kv.Pull(keys, &pulled));
    }
    kv.Wait(kv.Push(keys, std::vector<float>(keys.size() * options.width, 1)));
  }
  ps::Postoffice::Get()->Barrier(0, ps::kWorkerGroup);
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  if (ps::MyRank() == 0) std::printf("{\"round_us\": %.1f}\n", seconds / options.rounds * 1e6);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "usage: sumcast-bench-merge-node ROUNDS BATCH WIDTH KIND PULL\n");
    return 2;
  }
  const Options options{std::atoi(argv[1]), std::strtoull(argv[2], nullptr, 10),
                        std::strtoull(argv[3], nullptr, 10), argv[4], std::atoi(argv[5]) != 0};
  ps::DeclareMergeable(0, 0);
  ps::Start(0);
  Table table{options.width, {}, {}};
  if (ps::IsServer()) {
    auto* server = new ps::KVServer<float>(0);
    server->set_request_handle([&table](const ps::KVMeta& meta, const ps::KVPairs<float>& pairs,
                                        ps::KVServer<float>* s) { table(meta, pairs, s); });
    ps::RegisterExitCallback([server] { delete server; });
  } else if (ps::IsWorker()) {
    work(options);
  }
  ps::Finalize(0, true);
  const int rounds = options.rounds + options.rounds / 10 + 1;
  if (table.pushes > 0) {
    std::printf("{\"pushes\": %.1f, \"keys\": %.1f}\n", static_cast<double>(table.pushes) / rounds,
                static_cast<double>(table.keys) / rounds);
  }
  return 0;
}

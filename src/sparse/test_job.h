// Sparse jobs for tests: members are threads on loopback, gradients depend on rows, so that a stale
// or doubled one shows in the bits of all that follows.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <future>
#include <map>
#include <set>
#include <thread>

#include "base/prng.h"
#include "numeric/codec.h"
#include "sparse/server.h"
#include "sparse/worker.h"

namespace sumcast::sparse {

using Rows = std::map<uint64_t, std::vector<float>>;

inline Options small(uint32_t workers, uint32_t servers, table::OptimizerKind kind) {
  Options options;
  options.workers = workers;
  options.servers = servers;
  options.segments = 4;
  options.shape.width = 6;
  options.shape.optimizer.kind = kind;
  options.shape.optimizer.rate = 0.05f;
  options.shape.init_scale = 0.1f;
  return options;
}

struct JobSetup {
  Faults faults;
  std::map<uint32_t, std::chrono::nanoseconds> delays;  ///< Of what a rank receives.
  std::string aggregator;                               ///< Empty: the ranks themselves.
  bool seats = false;
  std::chrono::nanoseconds return_after{0};             ///< 0: nobody goes back.
  std::function<void(Server&)> on_server{};             ///< Before it runs.
  std::function<void(Seat&, uint32_t rank)> on_seat{};  ///< When it is there.
};

/// Runs all members as threads; `body(seat, rank)` on each.
template <typename Body>
void run_members(const Options& options, Body body, const JobSetup& setup = {}) {
  std::promise<std::string> meeting;
  const std::shared_future<std::string> address = meeting.get_future().share();
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < options.workers + options.servers; ++rank) {
    threads.emplace_back([&, rank] {
      sumcast::Options job;
      job.rank = rank;
      job.world = options.workers + options.servers;
      job.key.emplace();
      job.key->fill(std::byte{0x5A});
      job.timeout = std::chrono::seconds(30);
      job.join_timeout = std::chrono::seconds(10);
      job.one_rank_per_host = true;
      job.faults = setup.faults;
      job.faults.seed += rank;
      if (const auto delay = setup.delays.find(rank); delay != setup.delays.end()) {
        job.faults.delay = delay->second;
      }
      job.aggregator = setup.aggregator;
      job.return_after = setup.return_after;
      if (!setup.aggregator.empty()) {
        job.algorithm = Algorithm::kInNetwork;
      } else if (rank == 0) {
        job.coordinator = "127.0.0.1:0";
        job.on_listening = [&](const std::string& where) { meeting.set_value(where); };
      } else {
        job.coordinator = address.get();
      }
      auto seat = Seat::join(job, setup.seats);
      ASSERT_TRUE(seat.has_value()) << seat.error().what;
      if (setup.on_seat) setup.on_seat(**seat, rank);
      body(**seat, rank);
    });
  }
  for (auto& thread : threads) thread.join();
}

/// Runs workers and servers; `body(worker, rank)` on each worker. @return what each server's run()
/// ended with, by rank.
template <typename Body>
std::vector<std::string> run_job(const Options& options, Body body, const JobSetup& setup = {}) {
  std::vector<std::string> errors(options.workers + options.servers);
  const auto member = [&](Seat& seat, uint32_t rank) {
    if (rank < options.workers) {
      auto worker =
          setup.seats ? Worker::create(seat, options) : Worker::create(seat.context(), options);
      ASSERT_TRUE(worker.has_value()) << worker.error().what;
      body(**worker, rank);
      return;
    }
    auto server =
        setup.seats ? Server::create(seat, options) : Server::create(seat.context(), options);
    ASSERT_TRUE(server.has_value()) << server.error().what;
    if (setup.on_server) setup.on_server(**server);
    if (auto served = (*server)->run(); !served) errors[rank] = served.error().what;
  };
  run_members(options, member, setup);
  return errors;
}

/// The keys of a worker's batch: a few that everybody likes, and some of its own.
inline std::vector<uint64_t> batch(uint32_t rank, uint32_t round) {
  Prng random(rank * 1000 + round + 1);
  std::set<uint64_t> keys;
  for (int i = 0; i < 30; ++i) keys.insert(random.below(40) * 0x123456789ABCDEFu);
  for (int i = 0; i < 30; ++i) keys.insert(1000 + random.below(2000));
  if (round % 3 == 0) keys.insert({0, UINT64_MAX});
  if ((rank + round) % 5 == 0) keys.clear();  // A worker without keys closes rounds all the same.
  return {keys.begin(), keys.end()};
}

/// A gradient that depends on rank, round, key and the row's value, so that a stale row shows.
inline void gradient_of(uint32_t rank, uint32_t round, uint64_t key, const float* row, float* out) {
  Prng random(table::mix_key(key) ^ (rank * 7919 + round));
  for (int i = 0; i < 6; ++i) {
    out[i] = static_cast<float>(random.unit() - 0.5) + 0.3f * row[i];
  }
}

/// Of the current keys.
inline std::vector<float> gradients_of(const Worker& worker, uint32_t rank, uint32_t round,
                                       std::span<const uint64_t> keys) {
  std::vector<float> gradients(keys.size() * 6);
  for (size_t i = 0; i < keys.size(); ++i) {
    gradient_of(rank, round, keys[i], worker.row(i), gradients.data() + 6 * i);
  }
  return gradients;
}

inline void expect_equal_bits(const Rows& a, const Rows& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [key, row] : a) {
    ASSERT_TRUE(b.contains(key));
    ASSERT_EQ(std::memcmp(row.data(), b.at(key).data(), row.size() * sizeof(float)), 0) << key;
  }
}

/// What a worker is to read of a row that is `exact` (P26). @param out  6 lanes.
inline void read_as(WireFormat format, const float* exact, float* out) {
  std::copy_n(exact, 6, out);
  if (format == WireFormat::kNative) return;
  std::vector<std::byte> wire(numeric::payload_bytes(ElementType::kF32, format, 6));
  numeric::encode(format, exact, 6, wire.data());
  numeric::decode(format, wire.data(), 6, out);
}

/// What one machine would compute: rounds one after the other, gradients folded in rank order.
/// @return exact rows.
inline Rows reference(const Options& options, uint32_t rounds) {
  table::RowTable rows(options.shape);
  for (uint32_t round = 0; round < rounds; ++round) {
    std::map<uint64_t, std::vector<float>> sums;
    for (uint32_t rank = 0; rank < options.workers; ++rank) {
      for (const uint64_t key : batch(rank, round)) {
        float read[6], gradient[6];
        read_as(options.row_wire, rows.record(rows.find_or_make(key)), read);
        gradient_of(rank, round, key, read, gradient);
        auto [at, fresh] = sums.try_emplace(key, gradient, gradient + 6);
        for (int i = 0; i < 6 && !fresh; ++i) at->second[i] += gradient[i];
      }
    }
    for (const auto& [key, sum] : sums) rows.step(rows.find(key), sum.data());
  }
  Rows final;
  for (uint32_t row = 0; row < rows.size(); ++row) {
    final[rows.key(row)].assign(rows.record(row), rows.record(row) + 6);
  }
  return final;
}

inline std::vector<uint64_t> hot_keys(size_t count) {
  std::vector<uint64_t> keys;
  for (uint64_t i = 0; i < count; ++i) keys.push_back(i * 0x123456789ABCDEFu);
  return keys;
}

}  // namespace sumcast::sparse

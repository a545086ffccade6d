// For tests: whole groups of engines in one process, without the control room: plans are made here.
// Sums are compared bit by bit with the scalar fold.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "auth/key_file.h"
#include "base/prng.h"
#include "collective/engine.h"
#include "net/namespace_pair.h"
#include "numeric/fold.h"
#include "runtime/clock.h"

namespace sumcast::collective {
struct Cluster {
  struct Options {
    bool secure = true;
    bool aggregator = false;
    net::FaultPlan faults = {};
    uint32_t slots = 64;
    uint16_t flows = 1;
    /// The daemon is host A (without one, the first engine is), all others are on host B. None:
    /// loopback.
    const net::NamespacePair* hosts = nullptr;
    size_t listeners = SIZE_MAX;  ///< Engines beyond so many want no multicast.
    bool compact_always = false;
  };

  explicit Cluster(size_t world, Options options) : options_(options) {
    if (options.secure) key = auth::random_key();
    plan.incarnation = Incarnation(12345);
    plan.epoch = Epoch(1);
    plan.name = "test";
    plan.slots = 1024;
    for (size_t i = 0; i < world; ++i) {
      EngineOptions e;
      e.key = key;
      e.local = net::Endpoint::loopback(net::Family::kIpv4, 0);
      e.faults = options.faults;
      e.faults.seed = i + 1;
      e.flows = options.flows;
      e.multicast = i < options.listeners;
      e.compact_always = options.compact_always;
      const auto there = on_host_of(i);
      if (options_.hosts != nullptr) {
        e.local = *net::parse_endpoint(is_on_host_a(i) ? "10.77.0.1:0" : "10.77.0.2:0");
      }
      auto engine = Engine::create(std::move(e));
      EXPECT_TRUE(engine.has_value()) << engine.error().what;
      engines.push_back(std::move(*engine));
      control::Member member;
      member.rank = Rank(static_cast<uint16_t>(i));
      member.shard = engines.back()->shard_endpoint().text();
      plan.members.push_back(member);
    }
    if (options.aggregator) start_daemon();
    on_all([&](size_t i) {
      const auto r = engines[i]->start(plan, Rank(static_cast<uint16_t>(i)), daemon_shards,
                                       options_.aggregator, !options_.aggregator,
                                       runtime::monotonic_now() + 10s);
      ASSERT_TRUE(r.has_value()) << r.error().what;
    });
    open_group(GroupId(0));
  }

  ~Cluster() {
    engines.clear();
    stop = true;
    if (daemon_thread.joinable()) daemon_thread.join();
  }

  void open_group(GroupId id) {
    control::GroupPlan group;
    group.incarnation = plan.incarnation;
    group.group = id;
    group.slot_base = SlotIndex(static_cast<uint16_t>(id.value * options_.slots));
    group.slot_count = options_.slots;
    group.payload_bytes = engines[0]->datagram_bytes();
    for (size_t i = 0; i < engines.size(); ++i) group.ranks.emplace_back(static_cast<uint16_t>(i));
    if (host) {
      std::lock_guard lock(daemon_mutex);
      host->open_group(group);
    }
    for (auto& engine : engines) engine->open_group(group);
  }

  void start_daemon() {
    daemon_poller.emplace(*net::Poller::create());
    ShardHostOptions h;
    h.listen = net::Endpoint::loopback(net::Family::kIpv4, 0);
    h.socket_per_member = true;
    const auto there = on_host_a();
    if (options_.hosts != nullptr) h.listen = *net::parse_endpoint("10.77.0.1:0");
    h.faults = options_.faults;
    auto opened = ShardHost::open(h, *daemon_poller, 0);
    ASSERT_TRUE(opened.has_value()) << opened.error().what;
    host = std::move(*opened);
    host->start_job(plan, key);
    daemon_shards.push_back(host->endpoint());
    daemon_thread = std::thread([this] {
      const auto here = on_host_a();
      std::array<net::Event, 16> events;
      while (!stop) {
        const Instant before = runtime::monotonic_now();
        Instant due;
        {
          std::lock_guard lock(daemon_mutex);
          due = host->next_deadline();
        }
        const size_t n = daemon_poller->wait(
            events, std::clamp<Duration>(due - before, Duration(0), Duration(5ms)));
        std::lock_guard lock(daemon_mutex);
        const Instant now = runtime::monotonic_now();
        for (size_t i = 0; i < n; ++i) host->receive(events[i].token, now);
        host->on_timeout(now);
        host->flush(now);
      }
    });
  }

  template <typename Body>
  void on_all(Body body) {
    std::vector<std::thread> threads;
    for (size_t i = 0; i < engines.size(); ++i) {
      threads.emplace_back([&, i] {
        const auto there = on_host_of(i);
        body(i);
      });
    }
    for (auto& t : threads) t.join();
  }

  using Inside = net::NamespacePair::Inside;
  std::unique_ptr<Inside> on_host_a() const {
    if (options_.hosts == nullptr) return nullptr;
    return std::unique_ptr<Inside>(new Inside(options_.hosts->inside_a()));
  }
  bool is_on_host_a(size_t engine) const { return engine == 0 && !options_.aggregator; }
  std::unique_ptr<Inside> on_host_of(size_t engine) const {
    if (options_.hosts == nullptr) return nullptr;
    if (is_on_host_a(engine)) return on_host_a();
    return std::unique_ptr<Inside>(new Inside(options_.hosts->inside_b()));
  }

  /// Of the daemon, or of all embedded shards together.
  uint64_t shard_work(ShardWork what) {
    uint64_t total = 0;
    if (!host) {
      for (auto& engine : engines) total += engine->shard_counters()[what];
      return total;
    }
    std::lock_guard lock(daemon_mutex);
    return host->counters()[what];
  }

  std::string state_text(size_t i) {
    const EngineCounters c = engines[i]->counters();
    std::string text =
        "rank " + std::to_string(i) + ": contributions " + std::to_string(c.contributions) +
        " results " + std::to_string(c.results) + " stale " + std::to_string(c.stale) +
        " malformed " + std::to_string(c.malformed) + " unauthentic " +
        std::to_string(c.unauthentic) + " probes " + std::to_string(c.probes) + " asks " +
        std::to_string(c.asks) + " repeats " + std::to_string(c.repeats) + "; shard:";
    if (host) {
      std::lock_guard lock(daemon_mutex);
      for (const uint64_t n : host->counters().by_verdict) text += " " + std::to_string(n);
    } else {
      for (const uint64_t n : engines[i]->shard_counters().by_verdict) {
        text += " " + std::to_string(n);
      }
    }
    return text;
  }

  Route route() const { return options_.aggregator ? Route::kAggregator : Route::kDirect; }

  Options options_;
  std::optional<auth::Key> key;
  control::JobPlan plan;
  std::optional<net::Poller> daemon_poller;
  std::unique_ptr<ShardHost> host;
  std::mutex daemon_mutex;
  std::thread daemon_thread;
  std::atomic<bool> stop{false};
  std::vector<net::Endpoint> daemon_shards;
  std::vector<std::unique_ptr<Engine>> engines;
};

inline std::vector<float> random_floats(size_t count, uint64_t seed) {
  Prng prng(seed);
  std::vector<float> values(count);
  for (float& v : values) {
    v = static_cast<float>((prng.unit() - 0.5) *
                           std::exp2(static_cast<double>(prng.below(40)) - 20));
  }
  return values;
}

inline std::vector<float> canonical_sum(const std::vector<std::vector<float>>& inputs) {
  std::vector<float> out(inputs[0].size());
  std::vector<const std::byte*> sources;
  for (const auto& in : inputs) sources.push_back(reinterpret_cast<const std::byte*>(in.data()));
  numeric::fold(ElementType::kF32, Reduction::kSum, sources.data(), sources.size(), out.size(),
                static_cast<uint32_t>(inputs.size()), reinterpret_cast<std::byte*>(out.data()));
  return out;
}

inline void check_all_reduce(Cluster& cluster, size_t count, int rounds, WireFormat format) {
  const size_t world = cluster.engines.size();
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::vector<float>> inputs, outputs(world, std::vector<float>(count));
    for (size_t i = 0; i < world; ++i) inputs.push_back(random_floats(count, i + 100 * round));
    cluster.on_all([&](size_t i) {
      wire::OperationDescriptor d;
      d.count = count;
      d.format = format;
      auto op = cluster.engines[i]->submit(GroupId(0), cluster.route(), d, inputs[i].data(),
                                           outputs[i].data());
      ASSERT_TRUE(op.has_value()) << op.error().what;
      ASSERT_TRUE(cluster.engines[i]->wait(**op, runtime::monotonic_now() + 5s))
          << cluster.state_text(i) << " count " << count;
      ASSERT_FALSE((*op)->error.has_value()) << (*op)->error->what;
    });
    const auto want = canonical_sum(inputs);
    for (size_t i = 0; i < world; ++i) {
      const auto& expected = format == WireFormat::kNative ? want : outputs[0];
      ASSERT_TRUE(std::ranges::equal(std::as_bytes(std::span(outputs[i])),
                                     std::as_bytes(std::span(expected))))
          << "rank " << i;
    }
  }
}

}  // namespace sumcast::collective

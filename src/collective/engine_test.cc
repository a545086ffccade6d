// Whole groups of engines in one process, on loopback, without the control room: plans are made by
// the test. Sums are compared bit by bit with the scalar fold.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "auth/key_file.h"
#include "base/prng.h"
#include "collective/engine.h"
#include "numeric/fold.h"
#include "runtime/clock.h"

namespace sumcast::collective {
namespace {

struct Cluster {
  struct Options {
    bool secure = true;
    bool aggregator = false;
    net::FaultPlan faults = {};
    uint32_t slots = 64;
    uint16_t flows = 1;
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
    h.faults = options_.faults;
    auto opened = ShardHost::open(h, *daemon_poller, 0);
    ASSERT_TRUE(opened.has_value()) << opened.error().what;
    host = std::move(*opened);
    host->start_job(plan, key);
    daemon_shards.push_back(host->endpoint());
    daemon_thread = std::thread([this] {
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
    for (size_t i = 0; i < engines.size(); ++i) threads.emplace_back([&, i] { body(i); });
    for (auto& t : threads) t.join();
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

std::vector<float> random_floats(size_t count, uint64_t seed) {
  Prng prng(seed);
  std::vector<float> values(count);
  for (float& v : values) {
    v = static_cast<float>((prng.unit() - 0.5) *
                           std::exp2(static_cast<double>(prng.below(40)) - 20));
  }
  return values;
}

std::vector<float> canonical_sum(const std::vector<std::vector<float>>& inputs) {
  std::vector<float> out(inputs[0].size());
  std::vector<const std::byte*> sources;
  for (const auto& in : inputs) sources.push_back(reinterpret_cast<const std::byte*>(in.data()));
  numeric::fold(ElementType::kF32, Reduction::kSum, sources.data(), sources.size(), out.size(),
                static_cast<uint32_t>(inputs.size()), reinterpret_cast<std::byte*>(out.data()));
  return out;
}

void check_all_reduce(Cluster& cluster, size_t count, int rounds, WireFormat format) {
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
      if (format == WireFormat::kNative) {
        ASSERT_EQ(std::memcmp(outputs[i].data(), want.data(), count * 4), 0) << "rank " << i;
      } else {
        ASSERT_EQ(std::memcmp(outputs[i].data(), outputs[0].data(), count * 4), 0);
      }
    }
  }
}

TEST(Engine, SumsThroughADaemonsShard) {
  Cluster cluster(3, {.aggregator = true});
  for (const size_t count : {size_t{0}, size_t{1}, size_t{352}, size_t{353}, size_t{100000}}) {
    check_all_reduce(cluster, count, 2, WireFormat::kNative);
  }
}

TEST(Engine, SumsDirectlyBetweenEmbeddedShards) {
  for (const size_t world : {1u, 2u, 4u}) {
    Cluster cluster(world, {});
    for (const size_t count : {size_t{0}, size_t{1}, size_t{1000}, size_t{200000}}) {
      check_all_reduce(cluster, count, 2, WireFormat::kNative);
    }
  }
}

TEST(Engine, SumsWithoutTags) {
  Cluster cluster(2, {.secure = false, .aggregator = true, .flows = 3});
  check_all_reduce(cluster, 300000, 1, WireFormat::kNative);
}

TEST(Engine, GivesTheSameBitsUnderLossDuplicationAndReordering) {
  net::FaultPlan faults;
  faults.loss = 0.03;
  faults.duplicate = 0.02;
  faults.reorder = 0.02;
  for (const bool aggregator : {true, false}) {
    Cluster cluster(3, {.aggregator = aggregator, .faults = faults});
    check_all_reduce(cluster, 150000, 2, WireFormat::kNative);
    check_all_reduce(cluster, 10, 20, WireFormat::kNative);
  }
}

TEST(Engine, CarriesEveryWireFormat) {
  Cluster cluster(3, {});
  for (const WireFormat format :
       {WireFormat::kBF16, WireFormat::kFP16, WireFormat::kInt8, WireFormat::kFixed}) {
    check_all_reduce(cluster, 10000, 1, format);
  }
}

TEST(Engine, AbortEndsWhatIsUnderWayAndFencesTheTensor) {
  Cluster cluster(2, {.aggregator = true});
  std::vector<float> tensor(50000, 1.0f);
  wire::OperationDescriptor d;
  d.count = tensor.size();
  auto op =
      cluster.engines[0]->submit(GroupId(0), cluster.route(), d, tensor.data(), tensor.data());
  ASSERT_TRUE(op.has_value());
  EXPECT_FALSE(cluster.engines[0]->wait(**op, runtime::monotonic_now() + 20ms));
  cluster.engines[0]->abort(GroupId(0), Error{ErrorCode::kAborted, "rank 1 died"});
  EXPECT_TRUE((*op)->done.load());
  EXPECT_EQ((*op)->error->what, "rank 1 died");
  std::ranges::fill(tensor, 7.0f);
  std::vector<float> other(50000, 2.0f);
  auto late =
      cluster.engines[1]->submit(GroupId(0), cluster.route(), d, other.data(), other.data());
  ASSERT_TRUE(late.has_value());
  (void)cluster.engines[1]->wait(**late, runtime::monotonic_now() + 200ms);
  for (const float v : tensor) ASSERT_EQ(v, 7.0f);
  EXPECT_FALSE(
      cluster.engines[0]->submit(GroupId(0), cluster.route(), d, tensor.data(), tensor.data()));
}

TEST(Engine, ManyAsynchronousOperationsOfTwoGroupsAtOnce) {
  Cluster cluster(2, {.slots = 4});
  cluster.open_group(GroupId(1));
  constexpr int kOperations = 600;  // More than a window takes at once.
  std::vector<std::vector<int32_t>> tensors[2];
  for (auto& of_rank : tensors) {
    for (int n = 0; n < kOperations; ++n) of_rank.emplace_back(1 + n % 900, n);
  }
  cluster.on_all([&](size_t i) {
    std::vector<OperationPtr> operations;
    for (int n = 0; n < kOperations; ++n) {
      wire::OperationDescriptor d;
      d.type = ElementType::kI32;
      d.count = tensors[i][n].size();
      auto op = cluster.engines[i]->submit(GroupId(static_cast<uint16_t>(n % 2)), cluster.route(),
                                           d, tensors[i][n].data(), tensors[i][n].data());
      ASSERT_TRUE(op.has_value());
      operations.push_back(*op);
    }
    for (auto& op : operations) {
      ASSERT_TRUE(cluster.engines[i]->wait(*op, runtime::monotonic_now() + 5s));
    }
  });
  for (const auto& of_rank : tensors) {
    for (int n = 0; n < kOperations; ++n) {
      for (const int32_t v : of_rank[n]) ASSERT_EQ(v, 2 * n);
    }
  }
}

}  // namespace
}  // namespace sumcast::collective

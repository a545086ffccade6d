// A coordinator's server and its clients over loopback, each rank a thread.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <iterator>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "control/client.h"
#include "control/identity.h"
#include "control/server.h"

namespace sumcast::control {

inline const std::string kOperation = "all_reduce f32[1000] sum";

/// Remembers what its rank is told; answers what the test has set.
class Observer : public ClientObserver {
 public:
  struct Seen {
    std::optional<GroupId> group;
    Error error;
    std::vector<Rank> ranks;
  };
  void on_abort(std::optional<GroupId> group, const Error& error,
                const std::vector<Rank>& ranks) override {
    const std::lock_guard lock(mutex_);
    aborts_.push_back({group, error, ranks});
    changed_.notify_all();
  }
  std::vector<GroupActivity> activity() override {
    std::unique_lock lock(mutex_);
    auto all = activity_;
    std::ranges::move(std::exchange(closed_, {}), std::back_inserter(all));
    is_asked_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !is_held_; });
    return all;
  }
  Description describe(const Describe&) override {
    const std::lock_guard lock(mutex_);
    return description_;
  }
  void on_left(const Left& left) override {
    const std::lock_guard lock(mutex_);
    left_.push_back(left);
    changed_.notify_all();
  }

  void does(const std::vector<GroupActivity>& activity) {
    const std::lock_guard lock(mutex_);
    activity_ = activity;
  }
  /// Told once, as what a group did that has been closed since.
  void closes(const GroupActivity& last) {
    const std::lock_guard lock(mutex_);
    closed_.push_back(last);
  }
  /// Returns when the client's thread asks for activity, and waits there until release().
  void hold() {
    std::unique_lock lock(mutex_);
    is_held_ = true;
    is_asked_ = false;
    changed_.wait(lock, [&] { return is_asked_; });
  }
  void release() {
    const std::lock_guard lock(mutex_);
    is_held_ = false;
    changed_.notify_all();
  }
  void calls(uint64_t sequence, const std::string& text) {
    const std::lock_guard lock(mutex_);
    description_.sequence = sequence;
    description_.text = text;
  }
  /// Waits for the first abort; a test that sees none fails on the empty text.
  Seen abort() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, 20s, [&] { return !aborts_.empty(); });
    return aborts_.empty() ? Seen{} : aborts_.front();
  }
  size_t lefts() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, 20s, [&] { return !left_.empty(); });
    return left_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Seen> aborts_;
  std::vector<Left> left_;
  std::vector<GroupActivity> activity_, closed_;
  bool is_held_ = false, is_asked_ = false;
  Description description_;
};

class Jobs : public JobObserver {
 public:
  void job_started(const JobPlan&) override { ++started; }
  void group_opened(const GroupPlan&) override {
    std::unique_lock lock(mutex_);
    ++opened;
    changed_.wait(lock, [&] { return !is_held_; });
  }
  void group_closed(Incarnation, GroupId) override { ++closed; }
  void job_ended(Incarnation) override { ++ended; }
  /// From now on the coordinator's thread stands where a group opens, until release().
  void hold() {
    const std::lock_guard lock(mutex_);
    is_held_ = true;
  }
  void release() {
    const std::lock_guard lock(mutex_);
    is_held_ = false;
    changed_.notify_all();
  }
  std::atomic<int> started = 0, opened = 0, closed = 0, ended = 0;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_held_ = false;
};

inline net::Endpoint loopback() { return net::Endpoint::loopback(net::Family::kIpv4, 0); }

/// A server, and as many ranks as a test wants.
class Cluster {
 public:
  explicit Cluster(std::optional<auth::Key> server_key = auth::random_key()) : key(server_key) {
    ServerOptions options;
    options.listen = loopback();
    options.key = key;
    options.strangers_max = 32;
    server = CoordinatorServer::start(options, jobs).value();
  }
  JoinOptions options(int rank, uint32_t world, Duration timeout = 10s) const {
    JoinOptions join;
    join.coordinator = server->endpoint();
    join.key = key;
    join.key_source = "/etc/sumcast.key";
    join.join = Join{"x",
                     Rank(static_cast<uint16_t>(rank)),
                     world,
                     host_identity(),
                     name_of_rank(rank),
                     "127.0.0.1:1",
                     "",
                     "",
                     std::chrono::duration_cast<milliseconds>(timeout)};
    return join;
  }
  static std::string name_of_rank(int rank) { return "host-" + std::to_string(rank) + ":77"; }
  /// Ranks 0..world-1, joined from one thread each.
  void join_all(int world) {
    observers = std::vector<Observer>(static_cast<size_t>(world));
    clients.resize(static_cast<size_t>(world));
    each(world, [&](int r) {
      auto client = ControlClient::join(options(r, static_cast<uint32_t>(world)), observer(r));
      ASSERT_TRUE(client.has_value()) << client.error().what;
      clients[static_cast<size_t>(r)] = std::move(*client);
    });
  }
  template <typename Body>
  static void each(int count, const Body& body) {
    std::vector<std::thread> threads;
    for (int r = 0; r < count; ++r) threads.emplace_back([&body, r] { body(r); });
    for (std::thread& thread : threads) thread.join();
  }
  Observer& observer(int r) { return observers[static_cast<size_t>(r)]; }
  ControlClient& client(int r) { return *clients[static_cast<size_t>(r)]; }
  OpenGroup request(const std::string& group_key) const {
    OpenGroup open{group_key, {}, 1420, 8, milliseconds(10'000)};
    for (size_t r = 0; r < clients.size(); ++r) {
      open.ranks.push_back(Rank(static_cast<uint16_t>(r)));
    }
    return open;
  }
  GroupPlan open_world() {
    std::vector<GroupPlan> plans(clients.size());
    each(static_cast<int>(clients.size()), [&](int r) {
      auto plan = client(r).open_group(request("world"));
      ASSERT_TRUE(plan.has_value()) << plan.error().what;
      plans[static_cast<size_t>(r)] = *plan;
    });
    return plans[0];
  }
  uint64_t counter(const char* name) const {
    return server->status_json()["counters"][name].get<uint64_t>();
  }
  std::string where() const { return server->endpoint().text(); }

  std::optional<auth::Key> key;
  Jobs jobs;
  std::unique_ptr<CoordinatorServer> server;
  std::vector<Observer> observers;
  std::vector<std::unique_ptr<ControlClient>> clients;
};

/// Waits until `condition` holds; false after ten seconds.
template <typename Condition>
bool eventually(const Condition& condition) {
  for (int i = 0; i < 2000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(5ms);
  }
  return false;
}

}  // namespace sumcast::control

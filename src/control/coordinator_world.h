// For tests: a coordinator with a sink that remembers, and a clock moved by hand.
//
// Rank r of the default job sits on connection 100 + r, is called "host-r:pid" and comes from
// 10.0.0.(r+1). While time passes, every rank that has been told to `beat` sends heartbeats.
#pragma once

#include <fmt/format.h>

#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "control/coordinator.h"

namespace sumcast::control {

class RecordingSink : public CoordinatorSink {
 public:
  void job_started(const JobPlan& plan) override {
    started.push_back(plan);
    log.push_back("job_started");
  }
  void group_opened(const GroupPlan& plan) override {
    opened.push_back(plan);
    log.push_back(fmt::format("group_opened {}", plan.group.value));
  }
  void group_closed(Incarnation, GroupId group) override {
    log.push_back(fmt::format("group_closed {}", group.value));
  }
  void job_ended(Incarnation) override { log.push_back("job_ended"); }
  Incarnation fresh_incarnation() override { return Incarnation(++incarnations); }
  void send(std::span<const ConnectionId> connections, const ServerMessage& message) override {
    for (const ConnectionId connection : connections) {
      inbox[connection].push_back(message);
      log.push_back(fmt::format("to {}: {}", connection.value, kind(message)));
    }
  }
  void close(ConnectionId connection) override {
    closed.insert(connection);
    log.push_back(fmt::format("close {}", connection.value));
  }

  static std::string kind(const ServerMessage& message) {
    const std::string text = encode(message);
    const size_t start = text.find("\"kind\":\"") + 8;
    return text.substr(start, text.find('"', start) - start);
  }

  std::vector<JobPlan> started;
  std::vector<GroupPlan> opened;
  std::map<ConnectionId, std::vector<ServerMessage>> inbox;
  std::set<ConnectionId> closed;
  std::vector<std::string> log;
  uint32_t incarnations = 0;
};

class CoordinatorWorld {
 public:
  explicit CoordinatorWorld(CoordinatorConfig config = default_config())
      : coordinator(std::move(config), sink) {}

  static CoordinatorConfig default_config() {
    CoordinatorConfig config;
    config.where = "10.0.0.1:4711";
    config.slots_per_job = 64;
    return config;
  }
  static ConnectionId connection(int rank) {
    return ConnectionId(static_cast<uint64_t>(100 + rank));
  }
  static Rank rank(int value) { return Rank(static_cast<uint16_t>(value)); }
  static std::vector<Rank> ranks(const std::vector<int>& values) {
    std::vector<Rank> list;
    for (const int value : values) list.push_back(rank(value));
    return list;
  }

  void connect(ConnectionId id, const std::string& address) {
    coordinator.on_connected(id, address, now);
  }
  static Join join_message(int r, uint32_t world, const std::string& job = "x") {
    return Join{job,
                rank(r),
                world,
                fmt::format("boot-{}", r),
                fmt::format("host-{}:77", r),
                fmt::format("10.0.0.{}:9", r + 1),
                "",
                "",
                std::chrono::seconds(10)};
  }
  void join(int r, uint32_t world) {
    connect(connection(r), fmt::format("10.0.0.{}", r + 1));
    say(r, join_message(r, world));
  }
  /// A running job of `world` ranks that all beat.
  void start(int world) {
    for (int r = 0; r < world; ++r) join(r, static_cast<uint32_t>(world));
    for (int r = 0; r < world; ++r) beating.insert(r);
  }
  void say(int r, const ClientMessage& message) {
    coordinator.on_message(connection(r), message, now);
  }
  void hang_up(int r, const std::string& cause = "connection closed") {
    beating.erase(r);
    coordinator.on_disconnected(connection(r), cause, now);
  }
  static OpenGroup open_message(const std::vector<int>& members, const std::string& key = "world",
                                uint32_t slots = 8) {
    return OpenGroup{key, ranks(members), 1420, slots, std::chrono::seconds(5)};
  }
  void open(const std::vector<int>& members, const std::string& key = "world", uint32_t slots = 8) {
    for (const int r : members) say(r, open_message(members, key, slots));
  }
  /// What `r` reports from now on about a group.
  void does(int r, GroupActivity activity) {
    activities[r] = {activity};
    say(r, Heartbeat{0, activities[r]});
  }

  /// Lets time pass: deadlines fire when they are due, heartbeats come every 250 ms.
  void pass(Duration span) {
    const Instant end = now + span;
    while (now < end) {
      const Instant step =
          std::min(end, std::max(now, std::min(next_beat, coordinator.next_deadline())));
      now = step;
      if (now >= next_beat) {
        for (const int r : beating) beat(r);
        next_beat = now + 250ms;
      }
      if (now >= coordinator.next_deadline()) coordinator.on_timeout(now);
    }
  }
  void beat(int r, uint32_t request = 0) {
    std::vector<GroupActivity> aged = activities[r];
    say(r, Heartbeat{request, aged});
  }

  /// The messages of one type that a rank has received.
  template <typename Message>
  std::vector<Message> received(int r) {
    std::vector<Message> found;
    for (const ServerMessage& message : sink.inbox[connection(r)]) {
      if (const auto* match = std::get_if<Message>(&message)) found.push_back(*match);
    }
    return found;
  }
  /// Text of the only abort that a rank has received; says so if there is another number of them.
  std::string abort_text(int r) {
    const auto aborts = received<Abort>(r);
    return aborts.size() == 1 ? aborts[0].text : fmt::format("{} aborts", aborts.size());
  }

  RecordingSink sink;
  Coordinator coordinator;
  Instant now{1'000'000'000};
  Instant next_beat{1'000'000'000};
  std::set<int> beating;
  std::map<int, std::vector<GroupActivity>> activities;
};

}  // namespace sumcast::control

// The real sumcastd as a process on loopback, with ranks in this process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "auth/key_file.h"
#include "collective/engine.h"
#include "control/client.h"
#include "lab/process.h"
#include "net/descriptor.h"
#include "net/udp.h"
#include "runtime/clock.h"

namespace sumcast::daemon {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr uint32_t kSlots = 256;

/// A path that no other test of this or another process uses.
std::string fresh_path(const std::string& what) {
  static std::atomic<int> counter = 0;
  return testing::TempDir() + "sumcastd_" + std::to_string(::getpid()) + "_" +
         std::to_string(++counter) + "_" + what;
}

class DaemonProcess {
 public:
  explicit DaemonProcess(const std::vector<std::string>& flags,
                         const std::vector<std::string>& env = {}) {
    std::vector<std::string> argv = {SUMCASTD, "--json-ready", "--slots", std::to_string(kSlots)};
    const auto give = [&](const std::string& flag, const std::string& value) {
      if (std::ranges::find(flags, flag) != flags.end()) return;
      argv.push_back(flag);
      argv.push_back(value);
    };
    give("--listen", "127.0.0.1:0");
    give("--http", "127.0.0.1:0");
    give("--threads", "1");
    argv.insert(argv.end(), flags.begin(), flags.end());
    lab::SpawnOptions options;
    options.env = env;
    options.output = lab::Redirect::pipe();
    options.errors = lab::Redirect::file(errors_path_);
    process = lab::spawn_process(argv, options).value();
    const auto line = process.read_line(20s);
    if (!line) return;
    ready = json::parse(*line);
    listen = net::parse_endpoint(ready.at("listen").get<std::string>()).value();
  }
  ~DaemonProcess() {
    process.kill();
    std::filesystem::remove(errors_path_);
  }

  httplib::Result get(const std::string& path) const {
    const auto http = net::parse_endpoint(ready.at("http").get<std::string>()).value();
    httplib::Client client("127.0.0.1", http.port());
    return client.Get(path);
  }
  json status() const { return json::parse(get("/status")->body); }
  /// Asks for the status until it is as wanted; the last one if that takes ten seconds.
  template <typename Condition>
  json status_when(const Condition& wanted) const {
    json page = status();
    for (int i = 0; i < 500 && !wanted(page); ++i) {
      std::this_thread::sleep_for(20ms);
      page = status();
    }
    return page;
  }
  std::string errors() const {
    std::ifstream file(errors_path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  int exit_code() {
    const auto status = process.wait(20s);
    return status && status->signal == 0 ? status->code : -1;
  }

  lab::Process process;
  json ready;
  net::Endpoint listen;

 private:
  const std::string errors_path_ = fresh_path("stderr");
};

/// One rank: control client and engine, as a Context wires them.
class TestRank : public control::ClientObserver {
 public:
  void join(const net::Endpoint& daemon, int rank, uint32_t world,
            const std::optional<auth::Key>& key) {
    collective::EngineOptions engine_options;
    engine_options.key = key;
    engine_options.local = net::Endpoint::loopback(net::Family::kIpv4, 0);
    engine = collective::Engine::create(std::move(engine_options)).value();
    control::JoinOptions options;
    options.coordinator = daemon;
    options.key = key;
    options.key_source = "the test's key";
    options.join.job = "train";
    options.join.rank = Rank(static_cast<uint16_t>(rank));
    options.join.world = world;
    options.join.name = "host-" + std::to_string(rank) + ":1";
    options.join.shard = engine->shard_endpoint().text();
    options.join.timeout = std::chrono::milliseconds(20'000);
    auto joined = control::ControlClient::join(options, *this);
    ASSERT_TRUE(joined.has_value()) << joined.error().what;
    client = std::move(*joined);
    const control::Welcome& welcome = client->welcome();
    const control::JobPlan plan{welcome.incarnation, welcome.epoch, "train", welcome.members,
                                kSlots};
    std::vector<net::Endpoint> shards;
    for (const auto& text : welcome.shards) shards.push_back(net::parse_endpoint(text).value());
    const auto started =
        engine->start(plan, options.join.rank, shards, true, false, runtime::monotonic_now() + 20s);
    ASSERT_TRUE(started.has_value()) << started.error().what;
    open_world(world);
  }

  void open_world(uint32_t world) {
    control::OpenGroup request{"world",
                               {},
                               engine->datagram_bytes(),
                               engine->slots_wanted(),
                               std::chrono::milliseconds(20'000)};
    for (uint32_t r = 0; r < world; ++r) request.ranks.emplace_back(static_cast<uint16_t>(r));
    const auto group = client->open_group(request);
    ASSERT_TRUE(group.has_value()) << group.error().what;
    engine->open_group(*group);
  }

  collective::OperationPtr submit(std::vector<float>& tensor) {
    wire::OperationDescriptor descriptor;
    descriptor.count = tensor.size();
    return engine
        ->submit(GroupId(0), collective::Route::kAggregator, descriptor, tensor.data(),
                 tensor.data())
        .value();
  }
  std::optional<Error> finish(const collective::OperationPtr& operation) {
    if (!engine->wait(*operation, runtime::monotonic_now() + 20s)) {
      return Error{ErrorCode::kTimeout, "the operation did not end"};
    }
    return operation->error;
  }
  /// The first abort that came; empty after 20 seconds without one.
  std::string abort_text() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, 20s, [&] { return !abort_.empty(); });
    return abort_;
  }

  void on_abort(std::optional<GroupId> group, const Error& error,
                const std::vector<Rank>&) override {
    engine->abort(group, error);
    const std::lock_guard lock(mutex_);
    if (abort_.empty()) abort_ = error.what;
    changed_.notify_all();
  }
  std::vector<control::GroupActivity> activity() override { return engine->activity(); }
  control::Description describe(const control::Describe& question) override {
    control::Description answer{question.group, question.request, 0, ""};
    if (const auto found =
            engine->find_operation(question.group, question.sequence, question.digest)) {
      answer.sequence = 1;  // The tests that ask have one operation.
      answer.text = "all_reduce of " + std::to_string(found->count);
    }
    return answer;
  }
  void on_left(const control::Left&) override {}

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string abort_;

 public:
  std::unique_ptr<collective::Engine> engine;
  std::unique_ptr<control::ControlClient> client;  // Last, so that it ends first: it calls us.
};

struct Crew {
  Crew(const DaemonProcess& daemon, size_t world, const std::optional<auth::Key>& key)
      : ranks(world) {
    each([&](size_t r) {
      ranks[r].join(daemon.listen, static_cast<int>(r), static_cast<uint32_t>(world), key);
    });
  }
  template <typename Body>
  void each(const Body& body) {
    std::vector<std::thread> threads;
    for (size_t r = 0; r < ranks.size(); ++r) threads.emplace_back([&body, r] { body(r); });
    for (std::thread& thread : threads) thread.join();
  }
  /// Element i of rank r is r + i / 8, so that sums are exact and differ.
  void check_sum(size_t count) {
    const auto world = static_cast<float>(ranks.size());
    each([&](size_t r) {
      std::vector<float> tensor(count);
      for (size_t i = 0; i < count; ++i) {
        tensor[i] = static_cast<float>(r) + static_cast<float>(i) / 8;
      }
      const auto error = ranks[r].finish(ranks[r].submit(tensor));
      ASSERT_FALSE(error.has_value()) << error->what;
      for (size_t i = 0; i < count; ++i) {
        ASSERT_EQ(tensor[i], world * (world - 1) / 2 + world * static_cast<float>(i) / 8);
      }
    });
  }

  std::vector<TestRank> ranks;
};

/// A key and the file that the daemon reads it from.
struct KeyFile {
  KeyFile() {
    EXPECT_TRUE(auth::write_key_file(path).has_value());
    key = auth::read_key_file(path).value();
  }
  ~KeyFile() { std::filesystem::remove(path); }
  const std::string path = fresh_path("key");
  auth::Key key;
};

TEST(Daemon, SumsOnTwoThreadsAndTellsAboutIt) {
  const KeyFile key;
  DaemonProcess daemon({"--key-file", key.path, "--threads", "2"});
  ASSERT_FALSE(daemon.ready.empty()) << daemon.errors();
  EXPECT_EQ(daemon.ready["pid"], daemon.process.pid());
  EXPECT_EQ(daemon.ready["shards"][0], daemon.ready["listen"]);
  Crew crew(daemon, 3, key.key);
  crew.check_sum(100'000);
  crew.check_sum(1);

  const json page = daemon.status_when([](const json& s) {
    return s["jobs"][0]["groups"][0]["sequence"] == 2 &&
           s["jobs"][0]["groups"][0]["state"] == "idle";
  });
  const json& job = page["jobs"][0];
  EXPECT_EQ(job["name"], "train");
  EXPECT_EQ(job["state"], "running");
  EXPECT_EQ(job["ranks"][2]["name"], "host-2:1");
  EXPECT_EQ(job["groups"][0]["state"], "idle") << page.dump(1);
  for (const json& thread : page["threads"]) {
    const json& counters = thread["counters"];
    EXPECT_GT(counters["accepted"], 0);
    uint64_t sum = 0;
    for (const char* verdict : {"accepted", "duplicate", "answered", "stale", "mismatch", "foreign",
                                "malformed", "unknown_job", "unauthentic", "control"}) {
      sum += counters[verdict].get<uint64_t>();
    }
    EXPECT_EQ(counters["received"], sum);
    EXPECT_GT(thread["cycle_ns_max"], 0);
  }
  const std::string metrics = daemon.get("/metrics")->body;
  EXPECT_THAT(metrics, HasSubstr("\nsumcast_jobs{state=\"running\"} 1\n"));
  EXPECT_THAT(metrics, HasSubstr("\nsumcast_job_workers{job=\"train\",state=\"live\"} 3\n"));
  EXPECT_EQ(daemon.get("/-/healthy")->status, 200);
  EXPECT_EQ(daemon.get("/-/ready")->status, 200);
  EXPECT_EQ(daemon.get("/nothing")->status, 404);

  crew.each([&](size_t r) { EXPECT_TRUE(crew.ranks[r].client->leave(20s)); });
  const json after = daemon.status_when([](const json& s) { return s["jobs"].empty(); });
  EXPECT_TRUE(after["jobs"].empty());
  EXPECT_EQ(after["counters"]["deaths"], 0);
  EXPECT_GE(after["threads"][0]["counters"]["accepted"],
            page["threads"][0]["counters"]["accepted"]);
}

TEST(Daemon, SumsOverARehearsedBadNetwork) {
  DaemonProcess daemon(
      {"--insecure", "--loss", "0.03", "--dup", "0.02", "--reorder", "0.02", "--seed", "7"});
  ASSERT_FALSE(daemon.ready.empty()) << daemon.errors();
  EXPECT_THAT(daemon.errors(), HasSubstr("WARNING: --insecure"));
  Crew crew(daemon, 2, std::nullopt);
  crew.check_sum(100'000);
}

TEST(Daemon, SaysForWhomAGroupWaits) {
  DaemonProcess daemon({"--insecure"});
  ASSERT_FALSE(daemon.ready.empty()) << daemon.errors();
  Crew crew(daemon, 2, std::nullopt);
  std::vector<float> early(5000, 1.0f), late(5000, 2.0f);
  const auto first = crew.ranks[0].submit(early);
  const json page = daemon.status_when(
      [](const json& s) { return s["jobs"][0]["groups"][0]["state"] == "waiting"; });
  const json& group = page["jobs"][0]["groups"][0];
  EXPECT_EQ(group["state"], "waiting");
  EXPECT_EQ(group["blocked_on"], json::array({1}));
  EXPECT_EQ(group["sequence"], 1);
  const auto second = crew.ranks[1].submit(late);
  EXPECT_FALSE(crew.ranks[1].finish(second));
  EXPECT_FALSE(crew.ranks[0].finish(first));
  EXPECT_EQ(early, std::vector<float>(5000, 3.0f));
  const json after = daemon.status_when([](const json& s) {
    return s["threads"][0]["counters"]["operations"] == 1 && s["jobs"][0]["ranks"].size() == 2;
  });
  const json& thread = after["threads"][0];
  EXPECT_GE(thread["counters"]["tx_bytes"], 2 * 5000 * sizeof(float));
  EXPECT_GT(thread["operations_ns"], 0);
  EXPECT_GT(after["jobs"][0]["ranks"][1]["waited_for_ms"], 0);
  EXPECT_EQ(after["jobs"][0]["ranks"][0]["waited_for_ms"], 0);
}

TEST(Daemon, DifferentOperationsAreAnErrorOnAllRanks) {
  DaemonProcess daemon({"--insecure", "--threads", "2"});
  ASSERT_FALSE(daemon.ready.empty()) << daemon.errors();
  Crew crew(daemon, 2, std::nullopt);
  crew.each([&](size_t r) {
    std::vector<float> tensor(1000 + r, 1.0f);
    const auto error = crew.ranks[r].finish(crew.ranks[r].submit(tensor));
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(error->code, ErrorCode::kMismatch) << error->what;
    EXPECT_THAT(error->what, HasSubstr("all_reduce of 1000"));
    EXPECT_THAT(error->what, HasSubstr("all_reduce of 1001"));
  });
  EXPECT_EQ(daemon.status()["jobs"][0]["groups"][0]["state"], "aborted");
}

TEST(Daemon, SaysGoodbyeToItsMembersAtSigterm) {
  DaemonProcess daemon({"--insecure"});
  ASSERT_FALSE(daemon.ready.empty()) << daemon.errors();
  Crew crew(daemon, 2, std::nullopt);
  std::vector<float> tensor(5000, 1.0f);
  const auto operation = crew.ranks[0].submit(tensor);
  daemon.process.send_signal(SIGTERM);
  EXPECT_TRUE(crew.ranks[0].finish(operation).has_value());
  for (TestRank& rank : crew.ranks) EXPECT_FALSE(rank.abort_text().empty());
  EXPECT_EQ(daemon.exit_code(), 0);
}

TEST(Daemon, AStatusReaderThatSaysNothingDoesNotKeepItFromLeaving) {
  // It leaves by the emergency exit then, with the reader's thread, which TSan calls a leak.
  DaemonProcess daemon({"--insecure"}, {"TSAN_OPTIONS=report_thread_leaks=0"});
  ASSERT_FALSE(daemon.ready.empty()) << daemon.errors();
  const auto http = net::parse_endpoint(daemon.ready["http"].get<std::string>()).value();
  const net::FileDescriptor reader(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(reader.get(), http.raw(), http.raw_bytes()), 0);
  EXPECT_EQ(daemon.get("/-/ready")->status, 200);  // So the silent one was let in before.
  daemon.process.send_signal(SIGINT);
  EXPECT_EQ(daemon.exit_code(), 0);
}

TEST(Daemon, AWrongKeyIsDenied) {
  const KeyFile key;
  DaemonProcess daemon({"--key-file", key.path});
  ASSERT_FALSE(daemon.ready.empty()) << daemon.errors();
  TestRank observer;
  control::JoinOptions options;
  options.coordinator = daemon.listen;
  options.key = auth::random_key();
  options.join.job = "train";
  options.join.world = 1;
  options.join.name = "host:1";
  options.join.timeout = std::chrono::milliseconds(5000);
  const auto joined = control::ControlClient::join(options, observer);
  ASSERT_FALSE(joined.has_value());
  EXPECT_EQ(joined.error().code, ErrorCode::kDenied);
  EXPECT_EQ(daemon.status()["counters"]["denied_wrong_key"], 1);
}

TEST(Daemon, TakenPortsAreErrorsThatNameTheOwner) {
  DaemonProcess first({"--insecure"});
  ASSERT_FALSE(first.ready.empty()) << first.errors();
  const std::string owner = "in use by pid " + std::to_string(first.process.pid()) + " (sumcastd)";
  for (const char* flag : {"--listen", "--http"}) {
    const std::string address = first.ready[flag + 2];
    DaemonProcess second({"--insecure", flag, address});
    EXPECT_EQ(second.exit_code(), 1);
    EXPECT_TRUE(second.ready.empty());
    EXPECT_THAT(second.errors(), HasSubstr(address));
    EXPECT_THAT(second.errors(), HasSubstr(owner));
    EXPECT_THAT(second.errors(), HasSubstr(std::string("choose another with ") + flag));
  }
}

TEST(Daemon, APortThatOthersWouldShareIsTakenAllTheSame) {
  net::UdpOptions options;
  options.local = net::Endpoint::loopback(net::Family::kIpv4, 0);
  options.reuse_address = true;  // As a shard of another daemon does.
  const auto other = net::UdpSocket::open(options).value();
  DaemonProcess daemon({"--insecure", "--listen", other.local().text()});
  EXPECT_EQ(daemon.exit_code(), 1);
  EXPECT_THAT(daemon.errors(), HasSubstr("already in use"));
}

TEST(Daemon, TellsTheServiceManager) {
  const std::string path = fresh_path("notify");
  const net::FileDescriptor manager(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(path.size(), sizeof address.sun_path);
  std::copy(path.begin(), path.end(), address.sun_path);
  ASSERT_EQ(::bind(manager.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  const auto receive = [&] {
    char text[64];
    if (!net::wait_ready(manager.get(), POLLIN, runtime::monotonic_now() + 20s)) {
      return std::string("nothing");
    }
    const ssize_t bytes = ::recv(manager.get(), text, sizeof text, 0);
    return std::string(text, static_cast<size_t>(std::max<ssize_t>(bytes, 0)));
  };
  for (const int end : {SIGTERM, SIGHUP}) {
    DaemonProcess daemon({"--insecure"}, {"NOTIFY_SOCKET=" + path});
    EXPECT_EQ(receive(), "READY=1");
    daemon.process.send_signal(end);
    EXPECT_EQ(receive(), "STOPPING=1");
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace sumcast::daemon

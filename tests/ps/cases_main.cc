// Cases that each want a server and workers of their own kind:
//
//   extremes   keys 0 and 2^64 - 1, lengths that differ, three servers
//   deferred   the server answers when all workers have pushed, from a thread of its own
//   bad_input  unsorted keys and the like are errors, after which the next request works
//   big        one message of a million rows, pushed and pulled
//   again      the whole of Start to Finalize twice in one process
//   callbacks  a callback may send; customers of one process wait for one another
//   huge       one row of more than 2 GB, pushed and pulled
//   many       a push and a pull, for jobs of many nodes
//   nothing    keys without values, requests without keys
//   leave      ends while its requests, small and large, are under way
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "ps/ps.h"

namespace {

using Keys = std::vector<ps::Key>;
using Vals = std::vector<float>;

/// Adds rows of any length; the first push of a key says how long its row is.
struct Rows {
  std::map<ps::Key, Vals> rows;

  void operator()(const ps::KVMeta& meta, const ps::KVPairs<float>& pairs,
                  ps::KVServer<float>* server) {
    ps::KVPairs<float> response;
    size_t at = 0;
    for (size_t i = 0; i < pairs.keys.size(); ++i) {
      Vals& row = rows[pairs.keys[i]];
      if (meta.push) {
        const size_t length = pairs.lens.empty() ? pairs.vals.size() / pairs.keys.size()
                                                 : static_cast<size_t>(pairs.lens[i]);
        row.resize(length);
        for (float& value : row) value += pairs.vals[at++];
      }
      if (meta.pull) {
        response.keys.push_back(pairs.keys[i]);
        response.lens.push_back(static_cast<int>(row.size()));
        for (float value : row) response.vals.push_back(value);
      }
    }
    server->Response(meta, response);
  }
};

/// Keeps what was pushed and answers when all workers have pushed, as synchronous training does.
class Deferring {
 public:
  explicit Deferring(ps::KVServer<float>* server)
      : server_(server), thread_([this] { answer(); }) {}
  ~Deferring() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void on_request(const ps::KVMeta& meta, const ps::KVPairs<float>& pairs) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (sum_.size() < pairs.vals.size()) sum_.resize(pairs.vals.size());
    for (size_t i = 0; i < pairs.vals.size(); ++i) sum_[i] += pairs.vals[i];
    keys_ = pairs.keys;
    waiting_.push_back(meta);
    changed_.notify_all();
  }

 private:
  void answer() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      changed_.wait(
          lock, [&] { return over_ || waiting_.size() == static_cast<size_t>(ps::NumWorkers()); });
      if (over_) return;
      ps::KVPairs<float> response;
      response.keys = keys_;
      response.vals = ps::SArray<float>(sum_);
      for (const ps::KVMeta& meta : waiting_) server_->Response(meta, response);
      waiting_.clear();
      std::fill(sum_.begin(), sum_.end(), 0.0f);
    }
  }

  ps::KVServer<float>* server_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<ps::KVMeta> waiting_;
  ps::SArray<ps::Key> keys_;
  Vals sum_;
  bool over_ = false;
  std::thread thread_;
};

void extremes() {
  ps::KVWorker<float> kv(0, 0);
  const Keys keys = {
      0,          1, ps::kMaxKey / 3 - 1, ps::kMaxKey / 3, ps::kMaxKey / 3 * 2, ps::kMaxKey - 1,
      ps::kMaxKey};
  const std::vector<int> lens = {1, 2, 0, 3, 1, 2, 4};
  Vals vals;
  for (int i = 0; i < 13; ++i) vals.push_back(static_cast<float>(i + 1));
  kv.Wait(kv.Push(keys, vals, lens));
  ps::Postoffice::Get()->Barrier(0, ps::kWorkerGroup);
  Vals pulled;
  std::vector<int> pulled_lens;
  kv.Wait(kv.Pull(keys, &pulled, &pulled_lens));
  CHECK(pulled_lens == lens);
  const auto workers = static_cast<float>(ps::NumWorkers());
  for (size_t i = 0; i < vals.size(); ++i) CHECK_EQ(pulled[i], vals[i] * workers);
  // One key alone: the last, on the last server; the others are credited.
  Vals last;
  kv.Wait(kv.Pull({ps::kMaxKey}, &last));
  CHECK(last == Vals(pulled.end() - 4, pulled.end()));
  kv.Wait(kv.Push({}, {}));  // Nothing is a request, too.
}

void deferred() {
  ps::KVWorker<float> kv(0, 0);
  const Keys keys = {5, 6, 7};
  for (int step = 1; step <= 20; ++step) {
    const Vals vals(3, static_cast<float>(step * (ps::MyRank() + 1)));
    Vals out;
    kv.Wait(kv.PushPull(keys, vals, &out));
    const int workers = ps::NumWorkers();
    CHECK_EQ(out[2], static_cast<float>(step * workers * (workers + 1) / 2));
  }
}

void expect_error(const std::string& part, const std::function<void()>& call) {
  try {
    call();
  } catch (const dmlc::Error& error) {
    CHECK(std::string(error.what()).find(part) != std::string::npos) << error.what();
    return;
  }
  LOG(FATAL) << "no error with " << part;
}

void bad_input() {
  ps::KVWorker<float> kv(0, 0);
  expect_error("keys[2] = 4 follows keys[1] = 5", [&] { kv.Push({1, 5, 4}, {1, 1, 1}); });
  expect_error("keys[1] = 5 follows keys[0] = 5", [&] { kv.Push({5, 5}, {1, 1}); });
  expect_error("5 values do not divide", [&] { kv.Push({1, 2}, {1, 1, 1, 1, 1}); });
  expect_error("lens has 1 elements for 2 keys", [&] { kv.Push({1, 2}, {1, 1}, {2}); });
  expect_error("lens add up to 3", [&] { kv.Push({1, 2}, {1, 1}, {1, 2}); });
  expect_error("negative", [&] { kv.Push({1, 2}, {1, 1}, {3, -1}); });
  expect_error("outs has 1 elements", [&] {
    Vals out(1);
    kv.PushPull({1, 2}, {1, 1}, &out);
  });
  expect_error("there is room for 7", [&] {
    Vals out(7);
    kv.Wait(kv.Push({1}, {1}));
    kv.Wait(kv.Pull({1}, &out));
  });
  expect_error("no connection to worker", [&] {
    ps::SimpleApp app(8, 0);
    app.Wait(app.Request(1, "", ps::Postoffice::WorkerRankToID(ps::MyRank() + 1)));
  });
  expect_error("inside a handler or callback", [&] {
    std::string seen;
    int other = kv.Push({100}, {1});
    kv.Wait(kv.Push({101}, {1}, {}, 0, [&] {
      try {
        kv.Wait(other + 1);
      } catch (const dmlc::Error& error) {
        seen = error.what();
      }
    }));
    if (!seen.empty()) throw dmlc::Error(seen);
  });
  ps::Customer* const first = kv.get_customer();
  expect_error("customer 0 of application 0 exists already",
               [] { const ps::KVWorker<float> second(0, 0); });
  CHECK(ps::Postoffice::Get()->GetCustomer(0, 0) == first);
  Vals out;
  kv.Wait(kv.Push({2, 3}, {1, 2}));
  kv.Wait(kv.Pull({2, 3}, &out));
  CHECK(out == Vals({1, 2}));
}

void big() {
  ps::KVWorker<float> kv(0, 0);
  const size_t count = 1000000;
  ps::SArray<ps::Key> keys(count);
  ps::SArray<float> vals(count);
  for (size_t i = 0; i < count; ++i) {
    keys[i] = ps::kMaxKey / count * i;
    vals[i] = static_cast<float>(i % 4099);
  }
  for (int i = 0; i < 2; ++i) kv.Wait(kv.ZPush(keys, vals));
  ps::SArray<float> pulled;
  kv.Wait(kv.ZPull(keys, &pulled));
  CHECK_EQ(pulled.size(), count);
  for (size_t i = 0; i < count; ++i) CHECK_EQ(pulled[i], 2 * vals[i]);
  // Into an array that has the size: parts are received in their places.
  std::fill(pulled.begin(), pulled.end(), -1.0f);
  kv.Wait(kv.ZPull(keys, &pulled));
  for (size_t i = 0; i < count; ++i) CHECK_EQ(pulled[i], 2 * vals[i]);
  // Pushed from where it is pulled into.
  ps::SArray<float> both;
  both.CopyFrom(vals);
  kv.Wait(kv.ZPushPull(keys, both, &both));
  for (size_t i = 0; i < count; ++i) CHECK_EQ(both[i], 3 * vals[i]);
}

void nothing() {
  ps::KVWorker<float> kv(0, 0);
  const Keys keys = {0, 3, 900, ps::kMaxKey};
  Vals out;
  std::vector<int> lens;
  for (int round = 0; round < 3; ++round) {
    kv.Wait(kv.Push(keys, {}));
    kv.Wait(kv.Push(keys, {}, {0, 0, 0, 0}));
    kv.Wait(kv.Pull(keys, &out, &lens));
    CHECK(out.empty());
    CHECK(lens == std::vector<int>(4, 0));
    kv.Wait(kv.PushPull(keys, {}, &out));
    CHECK(out.empty());
  }
  kv.Wait(kv.Push(keys, {1, 2}, {0, 2, 0, 0}));
  kv.Wait(kv.Pull(keys, &out, &lens));
  CHECK(out == Vals({1, 2}));
  CHECK(lens == std::vector<int>({0, 2, 0, 0}));
  int called = 0;
  out.clear();
  kv.Wait(kv.Push({}, {}, {}, 0, [&] { ++called; }));
  kv.Wait(kv.Pull({}, &out, nullptr, 0, [&] { ++called; }));
  kv.Wait(kv.PushPull({}, {}, &out, nullptr, 0, [&] { ++called; }));
  CHECK_EQ(called, 3);
  CHECK(out.empty());
}

void leave() {
  static Vals small, large;  // Pulled into until the process ends.
  static ps::KVWorker<float> kv(0, 0);
  Keys keys;
  for (ps::Key key = 0; key < 100000; ++key) keys.push_back(ps::kMaxKey / 100000 * key);
  const Vals ones(keys.size(), 1);
  kv.Wait(kv.Push(keys, ones));
  for (int i = 0; i < 20; ++i) {
    kv.Push(keys, ones);
    kv.Push({7}, {1});
  }
  kv.Pull(keys, &large);
  kv.Pull({7}, &small);
}

/// Longer than 31 bits can say, in bytes, and of a length that is no multiple of anything.
constexpr size_t kHuge = (size_t{1} << 29) + 12345;
constexpr size_t kLooked = 509;  ///< One of so many values is looked at: all would take long.
float huge_value(size_t i) { return static_cast<float>(i % 8191); }

void huge() {
  ps::KVWorker<float> kv(0, 0);
  const ps::SArray<ps::Key> key = {7};
  ps::SArray<float> row;
  row.resize(kHuge);
  row[kHuge - 1] = 7;
  for (size_t i = 0; i < kHuge; i += kLooked) row[i] = huge_value(i);
  kv.Wait(kv.ZPush(key, row));
  row[kHuge - 1] = -1;
  for (size_t i = 0; i < kHuge; i += kLooked) row[i] = -1;
  kv.Wait(kv.ZPull(key, &row));
  CHECK_EQ(row.size(), kHuge);
  CHECK_EQ(row[kHuge - 1], 7);
  for (size_t i = 0; i < kHuge; i += kLooked) CHECK_EQ(row[i], huge_value(i));
}

/// Keeps the row that was pushed last, without a copy.
struct LastRow {
  void operator()(const ps::KVMeta& meta, const ps::KVPairs<float>& pairs,
                  ps::KVServer<float>* server) {
    if (meta.push) row = pairs;
    server->Response(meta, meta.pull ? row : ps::KVPairs<float>());
  }
  ps::KVPairs<float> row;
};

void callbacks() {
  ps::KVWorker<float> kv(0, 0);
  ps::SimpleApp app(1, 0);
  std::mutex mutex;
  std::condition_variable changed;
  int done = 0;
  for (int i = 0; i < 50; ++i) {
    kv.Push({static_cast<ps::Key>(i)}, {1}, {}, 0, [&, i] {
      kv.Push({static_cast<ps::Key>(1000 + i)}, {1}, {}, 0, [&] {
        const std::lock_guard<std::mutex> lock(mutex);
        ++done;
        changed.notify_all();
      });
      // Another customer's request, waited for inside a callback of this one.
      if (i % 10 == 0) app.Wait(app.Request(2, "", ps::kServerGroup));
    });
  }
  std::unique_lock<std::mutex> lock(mutex);
  CHECK(changed.wait_for(lock, std::chrono::seconds(20), [&] { return done == 50; }));
}

void many() {
  ps::KVWorker<float> kv(0, 0);
  const ps::Key key = static_cast<ps::Key>(ps::MyRank()) * (ps::kMaxKey / 1000);
  CHECK_EQ(ps::Postoffice::Get()->van()->my_node().id, 9 + 2 * ps::MyRank());
  kv.Wait(kv.Push({key}, {3}));
  Vals out;
  kv.Wait(kv.Pull({key}, &out));
  CHECK_EQ(out[0], 3);
}

void run(const std::string& name) {
  ps::Start(0);
  if (ps::IsServer()) {
    auto* server = new ps::KVServer<float>(0);
    auto* app = new ps::SimpleApp(1, 1);
    std::shared_ptr<Deferring> deferring;
    if (name == "deferred") {
      deferring = std::make_shared<Deferring>(server);
      Deferring* const handler = deferring.get();
      server->set_request_handle(
          [handler](const ps::KVMeta& meta, const ps::KVPairs<float>& pairs, ps::KVServer<float>*) {
            handler->on_request(meta, pairs);
          });
    } else if (name == "big") {
      server->set_request_handle(ps::KVServerDefaultHandle<float>());
    } else if (name == "huge") {
      server->set_request_handle(LastRow());
    } else {
      server->set_request_handle(Rows());
    }
    ps::RegisterExitCallback([=]() mutable {
      deferring.reset();
      delete app;
      delete server;
    });
  } else if (ps::IsWorker()) {
    if (name == "extremes") extremes();
    if (name == "deferred") deferred();
    if (name == "bad_input") bad_input();
    if (name == "big") big();
    if (name == "huge") huge();
    if (name == "callbacks") callbacks();
    if (name == "nothing") nothing();
    if (name == "leave") leave();
    if (name == "many" || name == "again") many();
  }
  ps::Finalize(0, true);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  run(name);
  if (name == "again") run(name);
  return 0;
}

// A job whose servers may be killed at any moment: nothing that was acknowledged is lost, and
// nothing is added twice. Workers push 1 to keys that all share, as fast as answers come, and push
// to and pull from keys of their own, whose every value is known.
//
//   replica load|deferred|large [rounds]
//
//   load      the handler answers at once
//   deferred  ... when all workers have pushed a key, from a thread of its own
//   large     as load, with arrays that are lent, not sent
//
// Workers print "ready" when they are under way, servers their ranks; the scheduler names the dead
// at the end.
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ps/ps.h"

namespace {

using Vals = std::vector<double>;

/// Adds rows; `cmd` is how many workers push each key before any of them is answered.
class Rows {
 public:
  explicit Rows(ps::KVServer<double>* server) : server_(server), thread_([this] { answer(); }) {}
  ~Rows() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void on_request(const ps::KVMeta& meta, const ps::KVPairs<double>& pairs) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const size_t width = pairs.keys.empty() ? 0 : pairs.vals.size() / pairs.keys.size();
    ps::KVPairs<double> response;
    for (size_t i = 0; i < pairs.keys.size(); ++i) {
      Vals& row = rows_[pairs.keys[i]];
      if (meta.push) {
        row.resize(width);
        for (size_t j = 0; j < width; ++j) row[j] += pairs.vals[i * width + j];
      }
      if (meta.pull) {
        response.keys.push_back(pairs.keys[i]);
        for (double value : row) response.vals.push_back(value);
      }
      // What a program does with memory that it believes to be its own.
      for (size_t j = 0; j < width; ++j) const_cast<double&>(pairs.vals[i * width + j]) = -1;
    }
    if (meta.cmd <= 1) {
      server_->Response(meta, response);
      return;
    }
    auto& waiting = waiting_[pairs.keys.front()];
    waiting.emplace_back(meta, response);
    if (waiting.size() < static_cast<size_t>(meta.cmd)) return;
    for (auto& ready : waiting) ready_.push_back(std::move(ready));
    waiting.clear();
    changed_.notify_all();
  }

 private:
  void answer() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return over_ || !ready_.empty(); });
      if (over_) return;
      auto ready = std::move(ready_);
      ready_.clear();
      lock.unlock();
      for (const auto& each : ready) server_->Response(each.first, each.second);
      lock.lock();
    }
  }

  ps::KVServer<double>* server_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<ps::Key, Vals> rows_;
  std::map<ps::Key, std::vector<std::pair<ps::KVMeta, ps::KVPairs<double>>>> waiting_;
  std::vector<std::pair<ps::KVMeta, ps::KVPairs<double>>> ready_;
  bool over_ = false;
  std::thread thread_;
};

/// `per_server` keys in what is each server's range, where keys go by ranges, from `first` on in
/// it.
std::vector<ps::Key> keys_everywhere(size_t per_server, ps::Key first) {
  std::vector<ps::Key> keys;
  const auto servers = static_cast<ps::Key>(ps::NumServers());
  for (ps::Key server = 0; server < servers; ++server) {
    for (size_t i = 0; i < per_server; ++i)
      keys.push_back(ps::kMaxKey / servers * server + first + i);
  }
  return keys;
}

void work(const std::string& name, int rounds) {
  ps::KVWorker<double> kv(0, 0);
  ps::SimpleApp app(1, 0);
  const int deferred = name == "deferred" ? ps::NumWorkers() : 1;
  const size_t width = name == "large" ? 2048 : 2;
  const std::vector<ps::Key> shared = keys_everywhere(8, 1000);
  const std::vector<ps::Key> own = keys_everywhere(1, static_cast<ps::Key>(ps::MyRank()));
  const Vals ones(shared.size() * width, 1);
  std::vector<int> requests;
  for (int i = 1; i <= rounds; ++i) {
    requests.push_back(kv.Push(shared, ones, {}, deferred));
    if (requests.size() > 16) kv.Wait(requests[requests.size() - 17]);
    Vals values;
    kv.Wait(kv.PushPull(own, Vals(own.size(), 1), &values));
    for (double value : values) CHECK_EQ(value, i);
    if (i % 100 == 0) app.Wait(app.Request(i, "", ps::kServerGroup));
    if (i == rounds / 10) {
      std::printf("ready\n");
      std::fflush(stdout);
    }
  }
  for (int request : requests) kv.Wait(request);
  ps::Postoffice::Get()->Barrier(0, ps::kWorkerGroup);
  Vals sums;
  kv.Wait(kv.Pull(shared, &sums));
  CHECK_EQ(sums.size(), ones.size());
  for (double sum : sums) CHECK_EQ(sum, static_cast<double>(rounds) * ps::NumWorkers());
  std::printf("exact\n");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "load";
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 1000;
  ps::Start(0);
  if (ps::IsServer()) {
    auto* server = new ps::KVServer<double>(0);
    auto* app = new ps::SimpleApp(1, 1);
    auto* rows = new Rows(server);
    std::printf("rank %d\n", ps::MyRank());
    std::fflush(stdout);
    server->set_request_handle([rows](const ps::KVMeta& meta, const ps::KVPairs<double>& pairs,
                                      ps::KVServer<double>*) { rows->on_request(meta, pairs); });
    ps::RegisterExitCallback([=] {
      delete rows;
      delete app;
      delete server;
    });
  } else if (ps::IsWorker()) {
    work(name, rounds);
  }
  ps::Postoffice::Get()->Barrier(0, ps::kScheduler + ps::kServerGroup + ps::kWorkerGroup);
  for (int node : ps::Postoffice::Get()->GetDeadNodes()) std::printf("dead: %d\n", node);
  std::fflush(stdout);
  ps::Finalize(0, true);
  return 0;
}

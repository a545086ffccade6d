// Pushes that were declared mergeable: sums are exact whatever is summed on the way, and whoever
// dies there.
//
//   merge sums [rounds]    all workers push to the same keys; each checks sums at the end
//   merge orphans [rounds] workers have keys of their own, may die, and do not meet at the end
//   merge mixed [rounds]   command 1 is not declared: the handler sees each such request
//
// Servers print how many pushes their handler had, and of how many keys.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "ps/ps.h"

namespace {

constexpr size_t kWidth = 4;

struct Counts {
  std::unordered_map<ps::Key, std::vector<float>> rows;
  size_t pushes = 0, keys = 0, undeclared = 0;

  void operator()(const ps::KVMeta& meta, const ps::KVPairs<float>& pairs,
                  ps::KVServer<float>* server) {
    ps::KVPairs<float> response;
    if (meta.push) {
      ++pushes;
      keys += pairs.keys.size();
      if (meta.cmd == 1) {
        ++undeclared;
        CHECK_GE(meta.timestamp, 0);
      }
    }
    for (size_t i = 0; i < pairs.keys.size(); ++i) {
      auto& row = rows[pairs.keys[i]];
      row.resize(kWidth);
      for (size_t j = 0; j < kWidth; ++j) {
        if (meta.push) row[j] += pairs.vals[i * kWidth + j];
        if (meta.pull) response.vals.push_back(row[j]);
      }
      if (meta.pull) response.keys.push_back(pairs.keys[i]);
    }
    server->Response(meta, response);
  }
};

std::vector<ps::Key> some_keys(size_t count, ps::Key first) {
  std::vector<ps::Key> keys;
  for (size_t i = 0; i < count; ++i) {
    keys.push_back(ps::kMaxKey / count * static_cast<ps::Key>(i) + first);
  }
  return keys;
}

void expect_all(ps::KVWorker<float>& kv, const std::vector<ps::Key>& keys, float value) {
  std::vector<float> sums;
  kv.Wait(kv.Pull(keys, &sums));
  CHECK_EQ(sums.size(), keys.size() * kWidth);
  for (float sum : sums) CHECK_EQ(sum, value);
}

void work(const std::string& name, int rounds) {
  ps::KVWorker<float> kv(0, 0);
  const bool alone = name == "orphans";
  const auto shared = some_keys(500, 7);
  const auto own = some_keys(200, 100 + static_cast<ps::Key>(ps::MyRank()));
  const std::vector<float> ones(shared.size() * kWidth, 1), mine(own.size() * kWidth, 1);
  std::vector<int> requests;
  for (int i = 1; i <= rounds; ++i) {
    const int cmd = name == "mixed" && i % 2 == 0 ? 1 : 0;
    requests.push_back(kv.Push(shared, ones, {}, cmd));
    if (requests.size() > 4) kv.Wait(requests[requests.size() - 5]);
    const int push = kv.Push(own, mine);
    // What was waited for is there.
    kv.Wait(push);
    if (i % 10 == 0) expect_all(kv, own, static_cast<float>(i));
    if (i == rounds / 10) {
      std::printf("ready\n");
      std::fflush(stdout);
    }
  }
  if (alone) {
    for (int request : requests) kv.Wait(request);
  } else {
    ps::Postoffice::Get()->Barrier(0, ps::kWorkerGroup);  // Which waits for what was pushed.
    expect_all(kv, shared, static_cast<float>(rounds * ps::NumWorkers()));
  }
  expect_all(kv, own, static_cast<float>(rounds));
  std::printf("exact\n");
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "sums";
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 200;
  ps::DeclareMergeable(0, 0);
  CHECK(ps::Postoffice::Get()->IsMergeable(0, 0));
  ps::Start(0);
  Counts counts;
  if (ps::IsServer()) {
    auto* server = new ps::KVServer<float>(0);
    server->set_request_handle([&counts](const ps::KVMeta& meta, const ps::KVPairs<float>& pairs,
                                         ps::KVServer<float>* s) { counts(meta, pairs, s); });
    ps::RegisterExitCallback([server] { delete server; });
  } else if (ps::IsWorker()) {
    work(name, rounds);
  }
  // A death ends Finalize; here the others are to go on without the dead.
  if (name == "orphans" && !ps::IsWorker()) std::this_thread::sleep_for(std::chrono::seconds(60));
  try {
    ps::Finalize(0, true);
  } catch (const dmlc::Error& error) {
    std::printf("told: %s\n", error.what());
  }
  if (ps::IsServer()) {
    std::printf("pushes %zu keys %zu undeclared %zu\n", counts.pushes, counts.keys,
                counts.undeclared);
  }
  std::fflush(stdout);
  _Exit(0);
}

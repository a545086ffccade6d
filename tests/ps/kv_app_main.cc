// Workers push 10,000 keys 50 times, pull them, then push and pull 50 times more; sums must be
// exact.
//
//   kv_app [customers]   so many customers, each in a thread of its own (a worker's), default 1
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "ps/ps.h"

namespace {

constexpr int kKeys = 10000, kRepeat = 50;

void run_server() {
  auto* server = new ps::KVServer<float>(0);
  server->set_request_handle(ps::KVServerDefaultHandle<float>());
  ps::RegisterExitCallback([server] { delete server; });
}

/// Each customer of each worker has keys of its own, so sums are known.
void run_worker(int customer, int customers) {
  ps::KVWorker<float> kv(0, customer);
  const auto mine = static_cast<ps::Key>(ps::MyRank() * customers + customer);
  std::vector<ps::Key> keys(kKeys);
  std::vector<float> vals(kKeys);
  for (int i = 0; i < kKeys; ++i) {
    keys[static_cast<size_t>(i)] = ps::kMaxKey / kKeys * static_cast<ps::Key>(i) + mine;
    vals[static_cast<size_t>(i)] = static_cast<float>((i * 37 + customer * 11) % 1000);
  }
  std::vector<int> requests;
  for (int i = 0; i < kRepeat; ++i) {
    requests.push_back(kv.Push(keys, vals));
    if (i > 10) kv.Wait(requests[requests.size() - 10]);
  }
  for (int request : requests) kv.Wait(request);

  std::vector<float> pulled;
  kv.Wait(kv.Pull(keys, &pulled));
  std::vector<float> both;
  for (int i = 0; i < kRepeat; ++i) kv.Wait(kv.PushPull(keys, vals, &both));
  for (size_t i = 0; i < vals.size(); ++i) {
    CHECK_EQ(pulled[i], vals[i] * kRepeat);
    CHECK_EQ(both[i], vals[i] * 2 * kRepeat);
  }
  LL << "worker " << ps::MyRank() << " customer " << customer << ": exact";
}

}  // namespace

int main(int argc, char** argv) {
  const int customers = argc > 1 ? std::atoi(argv[1]) : 1;
  const char* const role = ps::Environment::Get()->find("DMLC_ROLE");
  if (std::string(role != nullptr ? role : "") != "worker") {
    ps::Start(0);
    if (ps::IsServer()) run_server();
    ps::Finalize(0, true);
    return 0;
  }
  std::vector<std::thread> threads;
  for (int customer = 0; customer < customers; ++customer) {
    threads.emplace_back([=] {
      ps::Start(customer);
      run_worker(customer, customers);
      ps::Finalize(customer, true);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return 0;
}

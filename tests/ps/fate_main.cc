// What programs are told when nodes die or do not come. Whoever gets an error prints
// "told after <seconds> s: <text>" and ends with code 7.
//
//   wait      workers wait for an answer that no server gives
//   barrier   worker 0 does not come to a barrier of the workers; it sleeps
//   start     only Start and Finalize
//   async     workers leave without the barrier at the end
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include <unistd.h>

#include "ps/ps.h"

namespace {

using Clock = std::chrono::steady_clock;

/// Tells who we are, so that the test can begin.
void ready() {
  std::printf("ready\n");
  std::fflush(stdout);
}

void work(const std::string& name) {
  if (!ps::IsWorker()) {
    ready();
    return;
  }
  ps::KVWorker<float> kv(0, 0);
  kv.Wait(kv.Push({1, ps::kMaxKey}, {1, 1}));
  ready();
  if (name == "wait") {
    kv.Wait(kv.Push({1, ps::kMaxKey}, {1, 1}, {}, /*cmd=*/1));
  } else if (name == "barrier") {
    if (ps::MyRank() == 0) std::this_thread::sleep_for(std::chrono::seconds(20));
    ps::Postoffice::Get()->Barrier(0, ps::kWorkerGroup);
  }
}

}  // namespace

int main(int, char** argv) {
  const std::string name = argv[1];
  Clock::time_point begin = Clock::now();
  try {
    ps::Start(0);
    if (ps::IsServer()) {
      auto* server = new ps::KVServer<float>(0);
      server->set_request_handle(
          [](const ps::KVMeta& meta, const ps::KVPairs<float>&, ps::KVServer<float>* s) {
            if (meta.cmd == 0) s->Response(meta);
          });
    }
    work(name);
    begin = Clock::now();
    ps::Finalize(0, name != "async" || !ps::IsWorker());
  } catch (const dmlc::Error& error) {
    std::printf("told after %.2f s: %s\n",
                std::chrono::duration<double>(Clock::now() - begin).count(), error.what());
    std::fflush(stdout);
    _exit(7);
  }
  return 0;
}

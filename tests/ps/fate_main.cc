// What programs are told when nodes die or do not come. Whoever gets an error prints
// "told after <seconds> s: <text>" and ends with code 7.
//
//   wait      workers wait for an answer that no server gives
//   barrier   worker 0 does not come to a barrier of the workers; it sleeps
//   later     as wait, but workers catch the error, and go on with requests to each server
//   start     only Start and Finalize
//   async     workers leave without the barrier at the end
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include "ps/ps.h"

namespace {

using Clock = std::chrono::steady_clock;

/// Tells who we are, so that the test can begin.
void ready() {
  std::printf("ready\n");
  std::fflush(stdout);
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Does what ends in Wait, and prints how that went: "WHAT: done", or "WHAT: told after ...".
template <typename Action>
void attempt(const char* what, const Action& action) {
  const Clock::time_point begin = Clock::now();
  try {
    action();
    std::printf("%s: done\n", what);
  } catch (const dmlc::Error& error) {
    std::printf("%s: told after %.2f s: %s\n", what, seconds_since(begin), error.what());
  }
  std::fflush(stdout);
}

/// All that a program can wait for, each three times over.
void go_on(ps::KVWorker<float>& kv) {
  std::vector<float> values;
  for (int i = 0; i < 3; ++i) {
    for (const ps::Key key : {ps::Key(1), ps::kMaxKey}) {
      const std::vector<ps::Key> keys = {key};
      const bool is_first = key == 1;
      attempt(is_first ? "push 0" : "push 1", [&] { kv.Wait(kv.Push(keys, {1})); });
      attempt(is_first ? "pull 0" : "pull 1", [&] { kv.Wait(kv.Pull(keys, &values)); });
      attempt(is_first ? "both 0" : "both 1", [&] { kv.Wait(kv.PushPull(keys, {1}, &values)); });
    }
    attempt("push all", [&] { kv.Wait(kv.Push({1, ps::kMaxKey}, {1, 1})); });
  }
  std::printf("went on\n");
  std::fflush(stdout);
}

void work(const std::string& name) {
  if (!ps::IsWorker()) {
    ready();
    // In Finalize the survivors would be told, and end.
    if (name == "later") std::this_thread::sleep_for(std::chrono::minutes(1));
    return;
  }
  ps::KVWorker<float> kv(0, 0);
  kv.Wait(kv.Push({1, ps::kMaxKey}, {1, 1}));
  ready();
  if (name == "later") {
    attempt("first", [&] { kv.Wait(kv.Push({1, ps::kMaxKey}, {1, 1}, {}, /*cmd=*/1)); });
    go_on(kv);
  } else if (name == "wait") {
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
          [](const ps::KVMeta& meta, const ps::KVPairs<float>& pairs, ps::KVServer<float>* s) {
            ps::KVPairs<float> answer;
            if (meta.pull) answer.keys = pairs.keys;
            if (meta.pull) answer.vals.resize(pairs.keys.size(), 1);
            if (meta.cmd == 0) s->Response(meta, answer);
          });
    }
    work(name);
    begin = Clock::now();
    ps::Finalize(0, name != "async" || !ps::IsWorker());
  } catch (const dmlc::Error& error) {
    std::printf("told after %.2f s: %s\n", seconds_since(begin), error.what());
    std::fflush(stdout);
    _exit(7);
  }
  return 0;
}

// What a worker has sent is read late: when it is dead already, and its death is known. A push that
// is handled is not handled again.
//
//   late stand-in|replay
//
//   stand-in  worker 0 pushes
//   replay    worker 1 pushes, declared mergeable
//
// Pushes get no answer. Servers print "rank R" and, for each push, "added S": the sum of all that
// they have. Workers print "rank R"; who is sent SIGUSR1 looks for half a second, and prints
// "found S" for each other sum that it sees.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include "ps/ps.h"

namespace {

constexpr int kUnanswered = 1;
constexpr size_t kKeys = 64;

void print(const char* what, double value) {
  std::printf("%s %g\n", what, value);
  std::fflush(stdout);
}

void handle(std::map<ps::Key, double>& rows, const ps::KVMeta& meta,
            const ps::KVPairs<double>& pairs, ps::KVServer<double>* server) {
  ps::KVPairs<double> answer;
  for (size_t i = 0; i < pairs.keys.size(); ++i) {
    double& row = rows[pairs.keys[i]];
    if (meta.push) row += pairs.vals[i];
    if (!meta.pull) continue;
    answer.keys.push_back(pairs.keys[i]);
    answer.vals.push_back(row);
  }
  if (meta.push) {
    double sum = 0;
    for (const auto& row : rows) sum += row.second;
    print("added", sum);
  }
  if (meta.cmd != kUnanswered) server->Response(meta, answer);
}

void await_signal() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);
  int signal = 0;
  sigwait(&signals, &signal);
}

void look(ps::KVWorker<double>& kv, const std::vector<ps::Key>& keys) {
  double seen = -1;
  for (int i = 0; i < 50; ++i) {
    std::vector<double> values;
    kv.Wait(kv.Pull(keys, &values));
    double sum = 0;
    for (const double value : values) sum += value;
    if (sum != seen) print("found", sum);
    seen = sum;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  std::printf("looked\n");
  std::fflush(stdout);
}

}  // namespace

int main(int, char** argv) {
  const bool replays = std::string(argv[1]) == "replay";
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  if (replays) ps::DeclareMergeable(0, kUnanswered);
  ps::Start(0);
  std::map<ps::Key, double> rows;
  if (ps::IsServer()) {
    auto* server = new ps::KVServer<double>(0);
    server->set_request_handle([&rows](const ps::KVMeta& meta, const ps::KVPairs<double>& pairs,
                                       ps::KVServer<double>* s) { handle(rows, meta, pairs, s); });
  }
  if (!ps::IsScheduler()) print("rank", ps::MyRank());
  if (!ps::IsWorker()) await_signal();
  ps::KVWorker<double> kv(0, 0);
  std::vector<ps::Key> keys;
  for (ps::Key key = 0; key < kKeys; ++key) keys.push_back(key);
  const int pusher = replays ? 1 : 0;
  if (ps::MyRank() == pusher) kv.Push(keys, std::vector<double>(kKeys, 1), {}, kUnanswered);
  await_signal();
  look(kv, keys);
  _exit(0);  // No end of the job can be agreed on.
}

// What servers and a worker do at moments that the worker chooses: it stops and kills servers of
// its host by their process ids, which they tell it.
//
//   takeover again|order|leave|waiting|idle
//
//   again    the worker makes its KVWorker anew several times, then server 0 dies
//   order    server 1 reads all at once: a push, its log, what came of server 0's death
//   leave    server 1 leaves without the barrier at the end; server 0 goes on, then dies
//   waiting  the worker pushes while server 0 has no handler yet
//   idle     nothing
//
// Keys go by ranges. Workers print "right", or what is wrong.
#include <algorithm>
#include <atomic>
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

using Keys = std::vector<ps::Key>;
using Vals = std::vector<double>;

/// Whose values are not what was pushed.
constexpr ps::Key kPidKey = 1;
constexpr int kAdd = 0, kAssign = 1;
constexpr int kPushes = 20000;

std::atomic<int> pushes{0};

/// The same key of either server.
ps::Key key_of(int server, ps::Key key) {
  return ps::kMaxKey / 2 * static_cast<ps::Key>(server) + key;
}

/// Adds or assigns; values that are assigned only grow, and what comes out of turn makes a row -1.
class Rows {
 public:
  void on_request(const ps::KVMeta& meta, const ps::KVPairs<double>& pairs,
                  ps::KVServer<double>* server) {
    ps::KVPairs<double> answer;
    for (size_t i = 0; i < pairs.keys.size(); ++i) {
      const ps::Key key = pairs.keys[i];
      double& row = rows_[key];
      if (meta.push && meta.cmd == kAdd) row += pairs.vals[i];
      if (meta.push && meta.cmd == kAssign)
        row = row < 0 || pairs.vals[i] < row ? -1 : pairs.vals[i];
      if (!meta.pull) continue;
      answer.keys.push_back(key);
      const bool is_pid = key == key_of(ps::MyRank(), kPidKey);
      answer.vals.push_back(is_pid ? static_cast<double>(::getpid()) : row);
    }
    if (meta.push) ++pushes;
    server->Response(meta, answer);
  }

 private:
  std::map<ps::Key, double> rows_;
};

double pull(ps::KVWorker<double>& kv, ps::Key key) {
  Vals value;
  kv.Wait(kv.Pull(Keys{key}, &value));
  return value.at(0);
}

pid_t pid_of(ps::KVWorker<double>& kv, int server) {
  const auto pid = static_cast<pid_t>(pull(kv, key_of(server, kPidKey)));
  CHECK_GT(pid, 1);
  return pid;
}

void pause_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

void await_death(int server) {
  const int id = ps::Postoffice::ServerRankToID(server);
  for (;;) {
    const auto dead = ps::Postoffice::Get()->GetDeadNodes();
    if (std::find(dead.begin(), dead.end(), id) != dead.end()) return;
    pause_ms(1);
  }
}

void expect(double value, double expected) {
  if (value == expected) {
    std::printf("right\n");
  } else {
    std::printf("%g instead of %g\n", value, expected);
  }
  std::fflush(stdout);
}

/// The error of a push, or nothing.
std::string push_error(ps::KVWorker<double>& kv, ps::Key key) {
  try {
    kv.Wait(kv.Push(Keys{key}, Vals{1}));
  } catch (const dmlc::Error& error) {
    return error.what();
  }
  return "";
}

void again() {
  const ps::Key key = key_of(0, 10);
  for (int i = 0; i < 4; ++i) {
    ps::KVWorker<double> kv(0, 0);
    for (int j = 0; j < 5; ++j) kv.Wait(kv.Push(Keys{key}, Vals{1}));
  }
  ps::KVWorker<double> kv(0, 0);
  ::kill(pid_of(kv, 0), SIGKILL);
  await_death(0);
  expect(pull(kv, key), 20);
}

void order() {
  ps::KVWorker<double> kv(0, 0);
  const ps::Key key = key_of(0, 10);
  const pid_t first = pid_of(kv, 0), second = pid_of(kv, 1);
  ::kill(second, SIGSTOP);
  pause_ms(50);
  // In its sockets: from us; then from server 0; then from us; then from the scheduler.
  std::vector<int> requests;
  requests.push_back(kv.Push(Keys{key_of(1, 10)}, Vals{1}));
  pause_ms(50);
  requests.push_back(kv.Push(Keys{key}, Vals{1}, {}, kAssign));
  pause_ms(100);
  ::kill(first, SIGKILL);
  await_death(0);
  for (int i = 2; i <= 5; ++i) requests.push_back(kv.Push(Keys{key}, Vals{double(i)}, {}, kAssign));
  pause_ms(100);
  ::kill(second, SIGCONT);
  for (const int request : requests) kv.Wait(request);
  expect(pull(kv, key), 5);
}

void leave() {
  ps::KVWorker<double> kv(0, 0);
  const ps::Key key = key_of(0, 10);
  const pid_t first = pid_of(kv, 0);
  std::string error;
  while (error.empty()) error = push_error(kv, key_of(1, 10));
  std::printf("server 1: %s\n", error.c_str());
  kv.Wait(kv.Push(Keys{key}, Vals{1}));
  expect(pull(kv, key), 1);
  ::kill(first, SIGKILL);
  std::printf("server 0: %s\n", push_error(kv, key).c_str());
  std::fflush(stdout);
}

void waiting() {
  ps::KVWorker<double> kv(0, 0);
  std::vector<int> requests;
  for (int i = 1; i <= kPushes; ++i) {
    requests.push_back(kv.Push(Keys{key_of(0, 10)}, Vals{double(i)}, {}, kAssign));
  }
  for (const int request : requests) kv.Wait(request);
  expect(pull(kv, key_of(0, 10)), kPushes);
}

}  // namespace

int main(int, char** argv) {
  const std::string name = argv[1];
  ps::Start(0);
  Rows rows;
  if (ps::IsServer()) {
    if (name == "waiting") pause_ms(20);
    auto* server = new ps::KVServer<double>(0);
    server->set_request_handle(
        [&rows](const ps::KVMeta& meta, const ps::KVPairs<double>& pairs, ps::KVServer<double>* s) {
          rows.on_request(meta, pairs, s);
        });
    if (name == "leave" && ps::MyRank() == 1) {
      while (pushes == 0) pause_ms(1);
      std::printf("leaves\n");
      std::fflush(stdout);
      ps::Finalize(0, false);
      return 0;
    }
  } else if (ps::IsWorker()) {
    if (name == "again") again();
    if (name == "order") order();
    if (name == "leave") leave();
    if (name == "waiting") waiting();
    if (name == "leave") _exit(0);  // No end of the job can be agreed on.
  }
  // In Finalize the others would be told that one of them has left, and end.
  if (name == "leave") std::this_thread::sleep_for(std::chrono::minutes(1));
  ps::Finalize(0, true);
  return 0;
}

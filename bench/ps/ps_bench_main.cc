// How fast is a ps-lite? A program that compiles against any of them: ours, dmlc's, a user's.
//
// One server answers at once and keeps nothing; the worker measures, in this order:
//
//   round_trip   a push of one key and one float, waited for: microseconds, median and 90 %
//   pipelined    such pushes, at most `window` of them unanswered: requests a second
//   push_rows    ZPush of `keys` keys with `width` floats each, two unanswered: rows a second
//   pull_rows    ZPull of the same into an array that is there
//
// It prints a line of JSON for each, on standard output. Roles come from DMLC_*, as always.
//
//   ps_bench [keys] [width] [repeat]          default 200000 16 40
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "ps/ps.h"

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// The answer to pulls, kept between requests so that the handler costs nothing.
ps::SArray<float> answer;

void answer_at_once(const ps::KVMeta& meta, const ps::KVPairs<float>& pairs,
                    ps::KVServer<float>* server) {
  ps::KVPairs<float> response;
  if (meta.pull) {
    const size_t width = static_cast<size_t>(meta.cmd);
    if (answer.size() != pairs.keys.size() * width) answer.resize(pairs.keys.size() * width);
    response.keys = pairs.keys;
    response.vals = answer;
  }
  server->Response(meta, response);
}

void round_trip(ps::KVWorker<float>& kv) {
  const ps::SArray<ps::Key> key(1, 7);
  const ps::SArray<float> val(1, 1.0f);
  constexpr int kWarm = 500, kCount = 5000;
  std::vector<double> micros;
  for (int i = 0; i < kWarm + kCount; ++i) {
    const Clock::time_point begin = Clock::now();
    kv.Wait(kv.ZPush(key, val));
    if (i >= kWarm) micros.push_back(seconds_since(begin) * 1e6);
  }
  std::sort(micros.begin(), micros.end());
  std::printf("{\"name\": \"round_trip\", \"median_us\": %.1f, \"p90_us\": %.1f}\n",
              micros[micros.size() / 2], micros[micros.size() * 9 / 10]);
}

void pipelined(ps::KVWorker<float>& kv) {
  const ps::SArray<ps::Key> key(1, 7);
  const ps::SArray<float> val(1, 1.0f);
  constexpr int kCount = 400000, kWindow = 4096;
  std::vector<int> requests;
  requests.reserve(kCount);
  const Clock::time_point begin = Clock::now();
  for (int i = 0; i < kCount; ++i) {
    requests.push_back(kv.ZPush(key, val));
    if (i >= kWindow) kv.Wait(requests[static_cast<size_t>(i - kWindow)]);
  }
  for (int request : requests) kv.Wait(request);
  std::printf("{\"name\": \"pipelined\", \"requests_per_s\": %.0f}\n",
              kCount / seconds_since(begin));
}

void rows(ps::KVWorker<float>& kv, size_t count, size_t width, int repeat) {
  ps::SArray<ps::Key> keys(count);
  for (size_t i = 0; i < count; ++i) keys[i] = static_cast<ps::Key>(i) * 7;
  const ps::SArray<float> vals(count * width, 1.0f);
  ps::SArray<float> pulled(count * width, 0.0f);
  for (const bool push : {true, false}) {
    std::vector<int> requests;
    Clock::time_point begin;
    for (int i = -2; i < repeat; ++i) {
      if (i == 0) {
        for (int request : requests) kv.Wait(request);
        requests.clear();
        begin = Clock::now();
      }
      requests.push_back(push ? kv.ZPush(keys, vals)
                              : kv.ZPull(keys, &pulled, nullptr, static_cast<int>(width)));
      // Pulls share their destination, so they go one after another.
      const size_t behind = push ? 2 : 0;
      if (requests.size() > behind) kv.Wait(requests[requests.size() - 1 - behind]);
    }
    for (int request : requests) kv.Wait(request);
    const double rate = static_cast<double>(count) * repeat / seconds_since(begin);
    std::printf("{\"name\": \"%s\", \"rows_per_s\": %.0f, \"gbit_per_s\": %.2f}\n",
                push ? "push_rows" : "pull_rows", rate,
                rate * static_cast<double>(width * 4 + 8) * 8e-9);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const size_t keys = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 200000;
  const size_t width = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 16;
  const int repeat = argc > 3 ? std::atoi(argv[3]) : 40;
  ps::Start(0);
  if (ps::IsServer()) {
    auto* server = new ps::KVServer<float>(0);
    server->set_request_handle(answer_at_once);
    ps::RegisterExitCallback([server] { delete server; });
  } else if (ps::IsWorker()) {
    ps::KVWorker<float> kv(0, 0);
    round_trip(kv);
    pipelined(kv);
    rows(kv, keys, width, repeat);
  }
  ps::Finalize(0, true);
  return 0;
}

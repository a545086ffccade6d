// A program of 2016: one id for application and customer, Start without arguments, barriers of a
// group, roles asked for before Start.
#include <vector>

#include "ps/ps.h"

namespace {

/// Two values for each key, set by the last push.
struct Table {
  std::unordered_map<ps::Key, std::vector<float>> rows;

  void operator()(const ps::KVMeta& meta, const ps::KVPairs<float>& pairs,
                  ps::KVServer<float>* server) {
    ps::KVPairs<float> response;
    for (size_t i = 0; i < pairs.keys.size(); ++i) {
      std::vector<float>& row = rows[pairs.keys[i]];
      if (meta.push) row.assign(&pairs.vals[2 * i], &pairs.vals[2 * i] + 2);
      if (!meta.push) {
        response.keys.push_back(pairs.keys[i]);
        response.lens.push_back(2);
        for (float value : row) response.vals.push_back(value);
      }
    }
    server->Response(meta, response);
  }
};

}  // namespace

int main(int, char** argv) {
  CHECK_EQ(ps::IsServer() + ps::IsWorker() + ps::IsScheduler(), 1);
  ps::KVServer<float>* server = nullptr;
  if (ps::IsServer()) {
    server = new ps::KVServer<float>(3);
    server->set_request_handle(Table());
  }
  ps::Start(argv[0]);
  if (ps::IsWorker()) {
    ps::KVWorker<float> kv(3);
    const auto rank = static_cast<ps::Key>(ps::MyRank());
    const std::vector<ps::Key> keys = {rank, ps::kMaxKey / 2 + rank, ps::kMaxKey - rank};
    const std::vector<float> vals = {1, 2, 3, 4, 5, 6};
    int called = 0;
    kv.Wait(kv.Push(keys, vals, {}, 0, [&] { ++called; }));
    ps::Postoffice::Get()->Barrier(ps::kWorkerGroup);
    std::vector<float> back;
    std::vector<int> lens;
    kv.Wait(kv.Pull(keys, &back, &lens, 0, [&] { ++called; }));
    CHECK(back == vals);
    CHECK_EQ(lens.size(), 3u);
    CHECK_EQ(lens[2], 2);
    CHECK_EQ(called, 2);
  }
  ps::Finalize();
  delete server;
  return 0;
}

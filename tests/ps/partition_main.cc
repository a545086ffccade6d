// Where keys go: workers push 1 to the keys 0 to 999 and to the last one, and each server prints
// "rank R has N keys". Built several times, for programs that ask for ranges in different ways:
//
//   ps_partition           does not ask. With "plugin FILE" it loads a library that does, after
//   Start ps_partition_ranges    uses GetServerKeyRanges (PS_TEST_ASKS=1), in a function that
//   nobody calls ps_partition_slicer    uses set_slicer (PS_TEST_ASKS=2), likewise
//   ps_partition_library   links the library of ranges_library.cc, which asks (PS_TEST_ASKS=3)
#include <cstdio>
#include <string>
#include <vector>

#include <dlfcn.h>

#include "ps/ps.h"

#ifndef PS_TEST_ASKS
#define PS_TEST_ASKS 0
#endif

extern "C" unsigned long first_key_of_last_server();  // ranges_library.cc

namespace {

using Keys = std::vector<ps::Key>;
using Vals = std::vector<float>;

/// What a program asks in some of its roles, never in this test.
#if PS_TEST_ASKS == 1
unsigned long ask() { return ps::Postoffice::Get()->GetServerKeyRanges().back().begin(); }
#elif PS_TEST_ASKS == 2
unsigned long ask() {
  ps::KVWorker<float> kv(5, 5);
  kv.set_slicer([](const ps::KVPairs<float>&, const std::vector<ps::Range>& ranges,
                   ps::KVWorker<float>::SlicedKVs* sliced) { sliced->resize(ranges.size()); });
  return 0;
}
#elif PS_TEST_ASKS == 3
unsigned long ask() { return first_key_of_last_server(); }
#else
unsigned long ask() { return 0; }
#endif

void work() {
  ps::KVWorker<float> kv(0, 0);
  Keys keys;
  for (ps::Key key = 0; key < 1000; ++key) keys.push_back(key);
  keys.push_back(ps::kMaxKey);
  const Vals ones(keys.size(), 1);
  kv.Wait(kv.Push(keys, ones));
  ps::Postoffice::Get()->Barrier(0, ps::kWorkerGroup);
  Vals sums;
  kv.Wait(kv.Pull(keys, &sums));
  for (float sum : sums) CHECK_EQ(sum, static_cast<float>(ps::NumWorkers()));
  Vals last;
  kv.Wait(kv.Pull({ps::kMaxKey}, &last));
  CHECK_EQ(last[0], static_cast<float>(ps::NumWorkers()));
}

/// Asks too late: the error is what counts.
void ask_late(const char* file) {
  void* const library = dlopen(file, RTLD_NOW);
  CHECK(library != nullptr) << dlerror();
  const auto asks =
      reinterpret_cast<unsigned long (*)()>(dlsym(library, "first_key_of_last_server"));
  CHECK(asks != nullptr);
  try {
    std::printf("ranges: %lx\n", asks());
  } catch (const dmlc::Error& error) {
    std::printf("told: %s\n", error.what());
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 10) return static_cast<int>(ask());
  ps::Start(0);
  auto handle = std::make_shared<ps::KVServerDefaultHandle<float>>();
  ps::KVServer<float>* server = nullptr;
  if (ps::IsServer()) {
    server = new ps::KVServer<float>(0);
    server->set_request_handle([handle](const ps::KVMeta& meta, const ps::KVPairs<float>& pairs,
                                        ps::KVServer<float>* s) { (*handle)(meta, pairs, s); });
  } else if (ps::IsWorker()) {
    work();
    if (argc > 2 && argv[1] == std::string("plugin")) ask_late(argv[2]);
  }
  const int rank = ps::MyRank();
  ps::Finalize(0, true);
  if (server != nullptr) std::printf("rank %d has %zu keys\n", rank, handle->store.size());
  delete server;
  return 0;
}

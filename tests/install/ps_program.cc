// A ps-lite program: compiles and links against an installed tree. Jobs of it run in tests/ps.
#include <ps/ps.h>

#include <cstdio>

int main() {
  ps::KVPairs<float> pairs;
  pairs.keys = {1, 2};
  pairs.vals = {1.0f, 2.0f};
  ps::KVServer<float>* server = nullptr;  // Made where a job runs.
  std::printf("%zu keys\n", pairs.keys.size());
  return server == nullptr && pairs.vals[1] == 2.0f ? 0 : 1;
}

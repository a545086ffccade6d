// libFuzzer's way in. The build names the target: -DSUMCAST_FUZZ_TARGET=slot_pool.
#include <cstddef>
#include <cstdint>

#include "fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sumcast::fuzz::SUMCAST_FUZZ_TARGET({data, size});
  return 0;
}

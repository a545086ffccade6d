#include "numeric/stream_copy.h"

#include <gtest/gtest.h>

#include <vector>

namespace sumcast::numeric {
namespace {

TEST(StreamCopy, CopiesExactlyAtEveryAlignmentAndLength) {
  std::vector<std::byte> source(4096);
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::byte>(i * 7 + 1);
  for (size_t shift = 0; shift < 65; ++shift) {
    for (const size_t bytes : {size_t{0}, size_t{1}, size_t{63}, size_t{64}, size_t{65},
                               size_t{127}, size_t{128}, size_t{1408}, size_t{1424}}) {
      std::vector<std::byte> target(2048, std::byte{0xEE});
      stream_copy(target.data() + shift, source.data() + 3, bytes);
      stream_fence();
      for (size_t i = 0; i < target.size(); ++i) {
        const bool inside = i >= shift && i < shift + bytes;
        ASSERT_EQ(target[i], inside ? source[3 + i - shift] : std::byte{0xEE})
            << "shift " << shift << " bytes " << bytes << " at " << i;
      }
    }
  }
}

}  // namespace
}  // namespace sumcast::numeric

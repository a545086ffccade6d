#include "net/receive_buffers.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

namespace sumcast::net {
namespace {

TEST(ReceiveBuffers, HandsOutEachBufferOnceThenNone) {
  ReceiveBuffers pool(5);
  std::set<uint32_t> seen;
  for (int i = 0; i < 5; ++i) {
    const BufferIndex index = pool.acquire();
    ASSERT_NE(index, kNoBuffer);
    EXPECT_TRUE(seen.insert(index.value).second);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(pool.data(index)) % 64, 0u);
    std::memset(pool.data(index), static_cast<int>(index.value + 1), pool.buffer_bytes());
  }
  EXPECT_EQ(pool.acquire(), kNoBuffer);
  for (const uint32_t i : seen) {  // No buffer reaches into another.
    EXPECT_EQ(pool.data(BufferIndex{i})[0], std::byte(i + 1));
    EXPECT_EQ(pool.data(BufferIndex{i})[kBatchBytesMax - 1], std::byte(i + 1));
  }
}

TEST(ReceiveBuffers, FreesABufferWithItsLastReference) {
  ReceiveBuffers pool(1);
  const BufferIndex i = pool.acquire();
  pool.add_reference(i, 2);
  EXPECT_EQ(pool.references(i), 3u);
  pool.release(i);
  pool.release(i);
  EXPECT_EQ(pool.available(), 0u);
  pool.release(i);
  EXPECT_EQ(pool.available(), 1u);
  EXPECT_EQ(pool.acquire(), i);
}

TEST(ReceiveBuffers, PeeksAtWhatAcquireWillReturn) {
  ReceiveBuffers pool(4, 100);
  const BufferIndex held = pool.acquire();
  const BufferIndex first = pool.peek(0), second = pool.peek(1), third = pool.peek(2);
  EXPECT_EQ(pool.acquire(), first);
  EXPECT_EQ(pool.acquire(), second);
  EXPECT_EQ(pool.peek(0), third);
  pool.release(held);
  EXPECT_EQ(pool.peek(0), held) << "the buffer last used is the next, while it is in the cache";
}

TEST(ReceiveBuffersDeathTest, StopsOnAReleaseTooMany) {
  ReceiveBuffers pool(2);
  const BufferIndex i = pool.acquire();
  pool.release(i);
  EXPECT_DEATH(pool.release(i), "references_");
}

}  // namespace
}  // namespace sumcast::net

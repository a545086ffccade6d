#include "net/receive_buffers.h"

#include <sys/mman.h>

#include <new>

namespace sumcast::net {
namespace {

constexpr size_t kHugePageBytes = size_t{2} << 20;
constexpr size_t kLineBytes = 64;

constexpr size_t round_up(size_t n, size_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

// Buffers exactly 64 KiB apart would begin in the same cache set, and so would the headers in
// them; three lines between them spread the beginnings.
constexpr size_t kSlackBytes = 3 * kLineBytes;

}  // namespace

ReceiveBuffers::ReceiveBuffers(uint32_t count, uint32_t buffer_bytes)
    : count_(count),
      buffer_bytes_(buffer_bytes),
      stride_(round_up(buffer_bytes, kLineBytes) + kSlackBytes),
      free_count_(count),
      free_(std::make_unique<uint32_t[]>(count)),
      references_(std::make_unique<uint32_t[]>(count)) {
  SUMCAST_ASSERT(count > 0);
  SUMCAST_ASSERT(buffer_bytes > 0);
  const size_t bytes = round_up(count * stride_, kHugePageBytes);
  mapped_bytes_ = bytes + kHugePageBytes;  // Room to move the start to a huge page's boundary.
  void* mapping = ::mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc();  // As the two arrays above would.
  mapping_ = static_cast<std::byte*>(mapping);
  const auto start = reinterpret_cast<uintptr_t>(mapping_);
  memory_ = mapping_ + (round_up(start, kHugePageBytes) - start);
  ::madvise(memory_, bytes, MADV_HUGEPAGE);  // Advice: without huge pages all works the same.
  // The top of the stack is buffer 0, so that a lightly loaded pool touches its first pages only.
  for (uint32_t i = 0; i < count; ++i) free_[i] = count - 1 - i;
}

ReceiveBuffers::~ReceiveBuffers() { ::munmap(mapping_, mapped_bytes_); }

}  // namespace sumcast::net

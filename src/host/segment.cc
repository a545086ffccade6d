#include "host/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <thread>
#include <utility>

#include "base/assert.h"

namespace sumcast::host {
namespace {

constexpr size_t kPage = 4096;
constexpr uint64_t kMagic = 0x53554D4341535431;  // "SUMCAST1": another build's layout is refused.
constexpr size_t kTextBytes = 3800;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

enum AbortState : uint32_t { kNone = 0, kWriting = 1, kWritten = 2 };

size_t whole_pages(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

}  // namespace

struct Segment::Head {
  uint64_t magic;
  uint32_t ranks, buffers, piece_bytes;
  std::atomic<uint32_t> abort_state;
  uint32_t abort_code;
  uint32_t abort_bytes;
  std::array<char, kTextBytes> abort_text;
};

Segment::Segment(net::FileDescriptor memory, const Shape& shape, std::byte* base)
    : memory_(std::move(memory)), shape_(shape), base_(base) {
  static_assert(sizeof(Head) <= kPage);
  turns_at_ = kPage;
  records_at_ = turns_at_ + whole_pages((1 + kStages * shape.buffers) * sizeof(Turn));
  inputs_at_ = records_at_ + whole_pages(size_t{shape.buffers} * shape.ranks * sizeof(Record));
  sums_at_ = inputs_at_ + size_t{shape.ranks} * shape.buffers * shape.piece_bytes;
  bytes_ = sums_at_ + size_t{shape.buffers} * shape.piece_bytes;
}

Segment::Segment(Segment&& other) noexcept
    : memory_(std::move(other.memory_)),
      shape_(other.shape_),
      base_(std::exchange(other.base_, nullptr)),
      turns_at_(other.turns_at_),
      records_at_(other.records_at_),
      inputs_at_(other.inputs_at_),
      sums_at_(other.sums_at_),
      bytes_(other.bytes_) {}

Segment::~Segment() {
  if (base_ != nullptr) ::munmap(base_, bytes_);
}

Result<Segment> Segment::map(net::FileDescriptor memory, const Shape& shape) {
  Segment segment(std::move(memory), shape, nullptr);
  void* base =
      ::mmap(nullptr, segment.bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, segment.memory_.get(), 0);
  if (base == MAP_FAILED) return fail(net::system_error("mapping shared memory", errno));
  segment.base_ = static_cast<std::byte*>(base);
  return segment;
}

Result<Segment> Segment::create(const Shape& shape) {
  SUMCAST_ASSERT(shape.ranks >= 1 && shape.ranks <= kLocalRanksMax);
  SUMCAST_ASSERT(shape.buffers >= 1 && shape.piece_bytes % kPage == 0);
  net::FileDescriptor memory(
      static_cast<int>(::memfd_create("sumcast", MFD_CLOEXEC | MFD_ALLOW_SEALING)));
  if (!memory.is_open()) return fail(net::system_error("memfd_create", errno));
  const Segment sizes(net::FileDescriptor{}, shape, nullptr);
  if (::ftruncate(memory.get(), static_cast<off_t>(sizes.bytes_)) != 0) {
    return fail(net::system_error("sizing shared memory", errno));
  }
  if (::fcntl(memory.get(), F_ADD_SEALS, kSeals) != 0) {
    return fail(net::system_error("sealing shared memory", errno));
  }
  auto segment = map(std::move(memory), shape);
  if (!segment) return segment;
  Head* head = new (segment->base_) Head;
  head->ranks = shape.ranks;
  head->buffers = shape.buffers;
  head->piece_bytes = shape.piece_bytes;
  head->abort_state.store(kNone);
  head->magic = kMagic;
  return segment;
}

Result<Segment> Segment::attach(net::FileDescriptor memory, const Shape& shape) {
  const Segment sizes(net::FileDescriptor{}, shape, nullptr);
  struct stat found {};
  if (::fstat(memory.get(), &found) != 0) return fail(net::system_error("shared memory", errno));
  const int seals = ::fcntl(memory.get(), F_GET_SEALS);
  if (static_cast<size_t>(found.st_size) != sizes.bytes_ || (seals & kSeals) != kSeals) {
    return fail(ErrorCode::kMismatch, "the neighbours' shared memory has another layout");
  }
  auto segment = map(std::move(memory), shape);
  if (!segment) return segment;
  const Head& head = segment->head();
  if (head.magic != kMagic || Shape{head.ranks, head.buffers, head.piece_bytes} != shape) {
    return fail(ErrorCode::kMismatch, "the neighbours' shared memory has another layout");
  }
  return segment;
}

Segment::Head& Segment::head() const { return *reinterpret_cast<Head*>(base_); }

Turn& Segment::ready() const { return *reinterpret_cast<Turn*>(base_ + turns_at_); }

Turn& Segment::turn(Stage stage, uint32_t buffer) const {
  const size_t index = 1 + static_cast<size_t>(stage) * shape_.buffers + buffer;
  return reinterpret_cast<Turn*>(base_ + turns_at_)[index];
}

Record& Segment::record(uint32_t buffer, uint32_t rank) const {
  return reinterpret_cast<Record*>(base_ + records_at_)[size_t{buffer} * shape_.ranks + rank];
}

std::byte* Segment::input(uint32_t rank, uint32_t buffer) const {
  return base_ + inputs_at_ + (size_t{rank} * shape_.buffers + buffer) * shape_.piece_bytes;
}

std::byte* Segment::sum(uint32_t buffer) const {
  return base_ + sums_at_ + size_t{buffer} * shape_.piece_bytes;
}

void Segment::abort(const Error& error) const {
  uint32_t none = kNone;
  if (head().abort_state.compare_exchange_strong(none, kWriting)) {
    head().abort_code = static_cast<uint32_t>(error.code);
    head().abort_bytes = static_cast<uint32_t>(std::min(error.what.size(), kTextBytes));
    std::memcpy(head().abort_text.data(), error.what.data(), head().abort_bytes);
    head().abort_state.store(kWritten, std::memory_order_release);
  }
  host::abort(ready());
  for (size_t stage = 0; stage < kStages; ++stage) {
    for (uint32_t b = 0; b < shape_.buffers; ++b) host::abort(turn(static_cast<Stage>(stage), b));
  }
}

std::optional<Error> Segment::aborted() const {
  uint32_t state = head().abort_state.load(std::memory_order_acquire);
  if (state == kNone) return std::nullopt;
  // The text is being written: a matter of a microsecond, unless its writer has just died.
  for (int round = 0; round < 100 && state == kWriting; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    state = head().abort_state.load(std::memory_order_acquire);
  }
  if (state != kWritten) return Error{ErrorCode::kAborted, "a rank of this host ended the group"};
  const size_t bytes = std::min<size_t>(head().abort_bytes, kTextBytes);
  return Error{static_cast<ErrorCode>(head().abort_code),
               std::string(head().abort_text.data(), bytes)};
}

}  // namespace sumcast::host

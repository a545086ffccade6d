// A device that exists in tests only: torch's "privateuseone", made of threads and ciphered memory.
//
// It behaves as an accelerator does where staging could go wrong, and says so:
//
//   memory    every byte is stored XOR kKey, so whoever reads it as host memory gets garbage.
//   Copies
//             check that both ends are still allocated when they run, which is when their stream
//             comes to them; faults() counts those that were not
//   streams   each runs what was queued on it on a thread of its own, in order, later. A stream can
//             be held, and copies of one direction can be held after some have passed, so that
//             tests need no clock to see what happens before what
//   failure   fail() makes every later call on the device throw
//
// It keeps a list of its copies in the order in which they ended.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace toy {

constexpr uint8_t kKey = 0x5A;
constexpr int kDevices = 2;

enum class Direction { kIn, kOut, kWithin };  // To the host, to the device, neither.

/// Queues `task` on a stream. Returns at once.
void queue(const c10::Stream& stream, std::function<void()> task);
/// Until all that was queued on it has run.
void synchronize(const c10::Stream& stream);
c10::Stream current_stream(c10::DeviceIndex device);
/// A stream as the device itself knows it, and back.
void* native_handle(const c10::Stream& stream);
c10::Stream stream_of(void* native);
/// Queues that what follows waits until *word, in pinned memory, is not 0. Returns 0, as an
/// operation of a driver does.
int wait_for_word(void* native_stream, const uint32_t* word);

void* allocate(size_t bytes);  ///< Device memory.
void* allocate_pinned(size_t bytes);
void release(void* memory);  ///< Either.
bool is_pinned(const void* memory);
/// Does [memory, memory + bytes) lie in one allocation that is alive?
bool is_alive(const void* memory, size_t bytes);

/// Called by copies when they run: waits if their direction is held.
void pass(Direction direction);
/// Called by copies when they have run.
void note(Direction direction, int64_t stream, uint64_t bytes, bool alive);
/// Throws if the device was made to fail.
void check_alive();

// For tests.
int64_t hold_stream(const c10::Stream& stream);  ///< Until let_go(what it returns).
void let_go(int64_t hold);
void hold_copies(Direction direction, int64_t after);  ///< < 0: no more.
void fail(const std::string& text);                    ///< "": works again.
uint64_t faults();
struct Copy {
  Direction direction;
  int64_t stream;
  uint64_t bytes;
};
std::vector<Copy> copies();
void forget_copies();

}  // namespace toy

// Large arrays between processes of one host: not sent, but lent.
//
// The frame says where the array lies; the receiver has the kernel copy it from the sender's memory
// into its own (process_vm_readv), one copy where a socket takes two and all of TCP's work. Then it
// returns the loan, and the sender lets go of the array, which it has kept as it keeps one that is
// queued.
//
// Whether that works is tried, not guessed: the kernel may forbid it, and process ids may mean
// other processes (containers). Each end sends a random number, the dare. The other hashes it with
// both addresses of the connection and its own side of it, keeps that in its memory, and says
// where. Who finds the expected number there can read that process, and says so. The addresses see
// to it that nobody passes a dare on and has us read a third process (or ourselves) for him.
//
// Connections that are sealed (there may be enemies on the way), or whose frames are resent, do not
// lend.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/result.h"

namespace sumcast::ps {

/// Stands in the place of a lent array.
struct Loan {
  uint64_t address = 0;  ///< In the sender's memory.
  uint64_t bytes = 0;
  uint64_t id = 0;  ///< From 1, counted by the sender.
};
static_assert(sizeof(Loan) == 24 && std::has_unique_object_representations_v<Loan>);

/// Arrays from this size on are lent: a system call's worth of copying.
inline constexpr uint64_t kLentBytesMin = 64 << 10;

/// Copies from another process of this host. Errors: kSystem, if it cannot be read (whole).
Result<void> read_memory(pid_t process, uint64_t address, void* to, size_t bytes);

}  // namespace sumcast::ps

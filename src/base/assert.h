// Assertions that stay on in release.
//
// SUMCAST_ASSERT states what must hold if our own code is right; one condition each. A failed one
// is our bug, never the network's or the user's: it prints where, and stops the process.
// SUMCAST_DCHECK is for checks that cost O(n) and runs in debug builds only.
#pragma once

namespace sumcast {

/// Prints `condition` with its place to standard error and aborts. Never returns.
[[noreturn]] void panic(const char* file, int line, const char* condition) noexcept;

}  // namespace sumcast

#define SUMCAST_ASSERT(condition)                    \
  (__builtin_expect(static_cast<bool>(condition), 1) \
       ? static_cast<void>(0)                        \
       : ::sumcast::panic(__FILE__, __LINE__, #condition))

#ifdef NDEBUG
#define SUMCAST_DCHECK(condition) static_cast<void>(0)
#else
#define SUMCAST_DCHECK(condition) SUMCAST_ASSERT(condition)
#endif

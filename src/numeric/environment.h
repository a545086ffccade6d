// Whether this thread's floating point is the one that docs/numerics.md speaks of.
#pragma once

namespace sumcast::numeric {

/// True if this thread rounds to nearest even and keeps denormals, as CPUs do unless told
/// otherwise. A library built with -ffast-math, or a host program, may have switched on "flush to
/// zero"; threads inherit that from their creator. Sums would then silently differ between ranks:
/// whoever owns a thread asks this once, at its start. Nothing here changes the setting.
bool float_environment_is_default();

}  // namespace sumcast::numeric

// Memory for received frames, in which arrays of large messages stay as long as anybody keeps them.
//
// Fresh memory of megabytes costs a page fault for every 4 KiB, more than copying costs. So large
// blocks come back here when their last array goes, and serve the next message of about that size.
#pragma once

#include <cstddef>
#include <memory>

namespace sumcast::ps {

/// `bytes` bytes, aligned for any type, not initialised. Any thread; may be released by any other.
/// Errors: std::bad_alloc.
std::shared_ptr<char> make_block(size_t bytes);

}  // namespace sumcast::ps

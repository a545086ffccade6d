// The file that lets a worker or a daemon into a job: 32 bytes, written as 64 hex digits.
//
// Text rather than bytes, so that it passes through editors, secret stores and terminals. White
// space around the digits is ignored. A file that others may read is refused, as ssh does: a key
// that has leaked cannot be told from one that has not. A file of root's may be readable by a group
// (0440, 0640) for a process that is not root: so do systemd and Kubernetes hand out secrets.
#pragma once

#include <string>
#include <string_view>

#include "auth/secret.h"
#include "base/result.h"

namespace sumcast::auth {

/// Reads the key in `path`.
///
/// @return kInvalidArgument for a missing or unreadable file, a file that others may access, a
///         wrong number of digits, or a character that is no hex digit (the text names
///         its position). No error text contains key material.
Result<Key> read_key_file(const std::string& path);

/// Writes a fresh random key to `path` with mode 0600, whatever the umask.
///
/// @return kInvalidArgument if the file exists (it is left as it is), kSystem if it cannot be
///         written (nothing is left behind).
Result<void> write_key_file(const std::string& path);

/// The same rules for a key that came some other way, such as through a store.
/// @param text   64 hex digits with optional white space around them.
Result<Key> parse_key(std::string_view text);

/// 64 lower-case hex digits. The caller keeps the text as secret as the key.
std::string key_text(const Key& key);

}  // namespace sumcast::auth

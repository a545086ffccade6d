// May this process build clusters, and if not, why?
//
// Root may. Anybody else may where the kernel lets ordinary users create user namespaces (Debian
// does by default): inside one, we are root over namespaces that we create, and over nothing else.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"

namespace sumcast::lab {

/// Moves this process into a user namespace in which it appears as root, unless it has the
/// privileges already. Call it first thing in main: the kernel refuses once there are threads.
/// Files that are created afterwards still belong to the real user. On failure nothing has changed
/// and the error says what forbids it and who could allow it.
Result<void> enter_user_namespace_if_needed();

/// Why clusters cannot be built by this process as it is now, or nullopt if they can. Tries it: a
/// cluster of one shaped worker is built and dropped, which takes about 20 ms.
std::optional<std::string> why_no_namespaces();

/// What to tell the user who gets a loopback cluster instead, and what is lost by it.
std::string loopback_notice(const std::string& why);

}  // namespace sumcast::lab

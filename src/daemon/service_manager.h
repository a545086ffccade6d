// Tells the service manager how we are: systemd's notification protocol, one datagram a message.
#pragma once

#include <string_view>

#include "runtime/environment.h"

namespace sumcast::daemon {

/// Sends `state` ("READY=1", "STOPPING=1") to the socket that NOTIFY_SOCKET names. Does nothing if
/// there is none, and nothing worse than that if it cannot be reached. Never blocks.
void notify_service_manager(std::string_view state,
                            const runtime::EnvironmentLookup& lookup = runtime::environment);

}  // namespace sumcast::daemon

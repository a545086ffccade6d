// Who holds a port: the answer to "address already in use" that saves its reader an hour.
//
// Read from /proc, for error texts only. Another user's process shows its port but not its pid;
// then nothing is said rather than something guessed.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "net/address.h"

namespace sumcast::net {

enum class Transport : uint8_t { kUdp, kTcp };

struct PortOwner {
  pid_t pid = 0;
  std::string name;  ///< The process's name, as in /proc/PID/comm.
};

/// The process of this network namespace that has `local`'s port open, if /proc tells.
std::optional<PortOwner> find_port_owner(Transport transport, const Endpoint& local);

/// The error for a failed bind: "address 0.0.0.0:4711 is already in use by pid 17 (sumcastd);
/// choose another with --listen", or what else `error_number` means.
Error bind_error(Transport transport, const Endpoint& local, int error_number);

}  // namespace sumcast::net

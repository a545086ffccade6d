// The first words on a control connection: hello, proof, join, welcome. Inside the room only.
#pragma once

#include "base/result.h"
#include "control/client.h"
#include "control/frames.h"
#include "net/tcp.h"

namespace sumcast::control {

/// A connection on which the coordinator has said welcome.
struct JoinedConnection {
  net::TcpConnection tcp;
  FrameSeal seal;
  Welcome welcome;
};

/// Waits on the caller's thread, until the deadline of `options` at most. Errors as
/// ControlClient::join.
Result<JoinedConnection> join_coordinator(const JoinOptions& options);

}  // namespace sumcast::control

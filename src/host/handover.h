// How the ranks of one host come to share a segment: the leader makes it, the others fetch it.
//
// The leader listens on an abstract Unix socket for as long as it takes to serve its neighbours,
// and hands each the segment's descriptor. The socket's name is derived from the job's key, so
// nobody can guess it and sit there first; once it listens, names can be read in /proc, so both
// sides also show a token derived from that key, and look at each other's user id (SO_PEERCRED).
// Under --insecure there is no key: the user id alone decides.
//
// Abstract names live in the network namespace, belong to no file system, and go with their
// process. It does not know what the segment is for.
#pragma once

#include <functional>
#include <optional>

#include "auth/secret.h"
#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "host/segment.h"

namespace sumcast::host {

/// Who meets, and what for.
struct Meeting {
  std::optional<auth::Key> key;  ///< The job's; none with --insecure.
  Incarnation incarnation;
  uint32_t subject = 0;  ///< What the segment is for: kProbe, or a group's id.
  Rank leader;           ///< The rank of the job that makes the segment; part of the name.
  uint32_t me = 0;       ///< Place among the local ranks; 0 is the leader.
  Shape shape;           ///< shape.ranks: how many meet.
};
inline constexpr uint32_t kProbe = UINT32_MAX;

/// A reason to give up early (the group was aborted), or nothing. Asked every few milliseconds.
using GiveUp = std::function<std::optional<Error>()>;

/// Meets: returns when this rank has the segment (the leader: when all others have fetched it).
///
/// Errors: kTimeout (who did not come), kUnavailable (the leader went away), kDenied (another user,
/// another key), kMismatch (another build), kSystem, or what `give_up` said. The leader's failure
/// is told to those who come.
Result<Segment> meet(const Meeting& meeting, Instant deadline, const GiveUp& give_up);

}  // namespace sumcast::host

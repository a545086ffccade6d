// What the coordinator is told about an operation whose deadline has passed.
#pragma once

#include <chrono>

#include "control/messages.h"
#include "runtime/clock.h"
#include "wire/descriptor.h"

namespace sumcast::api {

/// @param what  with its sequence number. @param since  when this rank began to wait for it.
inline control::Overdue overdue_of(GroupId group, const wire::OperationDescriptor& what,
                                   Instant since) {
  const Duration waited = runtime::monotonic_now() - since;
  return {group, what.sequence, wire::describe(what),
          std::chrono::duration_cast<std::chrono::milliseconds>(waited)};
}

}  // namespace sumcast::api

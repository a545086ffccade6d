// The library's own messages, as JSON: joining, barriers, heartbeats, leaving.
//
//   hello    both ways, first: which node speaks (-1: not known yet), and its epoch
//   add      to the scheduler: a customer of this process joins
//   nodes    from the scheduler: all have come; their ids, and yours
//   refused  from the scheduler: you are not let in, with the reason
//   arrive   to the scheduler: waits at the barrier of `group`
//   pass     from the scheduler: the wait `token` is over; with `why` if the barrier broke
//   beat     to and from the scheduler, every PS_HEARTBEAT_INTERVAL
//   suspect  to the scheduler, with replicas: the connection to server `node` is gone
//   lost     from the scheduler: a node died, and how that was noticed
//   left     from the scheduler, to who suspects `node`: it has left of its own will
//   here     to the sender of a hello: where in memory its dare stands (loan.h)
//   lend     to the sender of a here: your memory can be read
//   bye      to all: this node leaves of its own will
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ps/internal/message.h"
#include "ps/internal/postoffice.h"

namespace sumcast::ps {

struct ControlMessage {
  std::string kind;
  int node = -1;  ///< hello: the speaker; lost, left: who; nodes: the receiver's id.
  uint64_t epoch = 0;
  int customer = 0;
  int group = 0;
  uint64_t token = 0;
  int replicas = 0;      ///< add: 1 if SUMCAST_PS_REPLICAS is set there.
  uint64_t merging = 0;  ///< add: what was declared mergeable there (Hub::merging).
  int partition = 0;     ///< add: SUMCAST_PS_PARTITION there; nodes: the job's. 1 ranges, 2 hash.
  int asks = 0;          ///< add: 1 if the program asks for ranges (key_plan.h).
  int patient = 0;       ///< arrive: 1 if it may take as long as the job (Finalize).
  uint64_t dare = 0;     ///< hello: a random number for the receiver to put into its memory.
  int pid = 0;           ///< here: the process that has it there.
  uint64_t address = 0;  ///< here: and where.
  std::string why;
  std::vector<::ps::Node> nodes;  ///< add: the process; nodes: all.
};

/// Of ControlMessage::partition; nothing is 0.
int to_number(std::optional<::ps::Partition> partition);
/// Nothing for a number that is none.
std::optional<::ps::Partition> to_partition(int number);

std::string to_text(const ControlMessage& message);
/// Errors: kDenied, if it is no such message.
Result<ControlMessage> parse_control(std::string_view text);

}  // namespace sumcast::ps

// Reads the counters of queueing disciplines and the state of links straight from the kernel.
//
// This is what `tc -s qdisc show` and `ip link show` print, without starting a program: the bench
// polls these counters between iterations on machines that have few cores, and N programs per
// poll would show up in its figures. A socket stays in the network namespace that it was created
// in, so one thread can read all nodes without entering anything.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "lab/fd.h"

namespace sumcast::lab {

/// What has left through one queueing discipline since it was installed. Packets are datagrams on
/// the wire: a segmentation batch counts as its segments.
struct QdiscCounters {
  uint64_t bytes = 0;  ///< With Ethernet headers, without preamble and checksum.
  uint64_t packets = 0;
  uint64_t drops = 0;          ///< Refused because the queue was full.
  uint64_t backlog_bytes = 0;  ///< Queued now.
  uint64_t backlog_packets = 0;

  bool operator==(const QdiscCounters&) const = default;
};

/// A root queueing discipline.
struct QdiscReading {
  int interface_index = 0;
  std::string kind;  ///< "tbf", "pfifo", "noqueue", ...
  QdiscCounters counters;
};

struct InterfaceReading {
  int interface_index = 0;
  std::string name;
  bool up = false;  ///< Operational: administratively up, with carrier.
};

/// A route netlink socket in one network namespace. One thread at a time.
class Netlink {
 public:
  /// In the calling thread's namespace.
  static Result<Netlink> open();

  Result<std::vector<QdiscReading>> root_qdiscs();
  Result<std::vector<InterfaceReading>> interfaces();

 private:
  explicit Netlink(Fd socket) : socket_(std::move(socket)) {}

  /// Sends one dump request of `type` and returns the bytes of all answers of type `answer`, each
  /// a complete netlink message.
  Result<std::vector<std::vector<char>>> dump(int type, size_t body_bytes, int answer);

  Fd socket_;
  uint32_t sequence_ = 0;
};

}  // namespace sumcast::lab

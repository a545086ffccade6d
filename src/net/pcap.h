// Writes datagrams into a file that Wireshark and tcpdump read.
//
// We see payloads, not packets, so the IP and UDP headers in the file are made up from the
// endpoints, checksums included (LINKTYPE_RAW). What is captured is what the program sent or
// received, after receive offload was undone: a capture on the interface would show batches.
//
// For debugging, not for speed: buffered, but one copy and a checksum per datagram. One thread.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "net/address.h"

namespace sumcast::net {

class PcapWriter {
 public:
  /// Creates or empties the file. Errors: kInvalidArgument (cannot be written there).
  static Result<PcapWriter> create(const std::string& path);

  /// Adds one datagram. `from` and `to` must be of one family, neither unset (asserted).
  ///
  /// @param at        on CLOCK_MONOTONIC; appears in the file as the time of day.
  /// @param datagram  the UDP payload, at most 65,507 bytes (asserted).
  void write(Instant at, const Endpoint& from, const Endpoint& to,
             std::span<const std::byte> datagram);

  /// Makes what was written visible to readers. kSystem if the disk is full or the like, also for
  /// earlier writes.
  Result<void> flush();
  uint64_t datagrams() const { return datagrams_; }

 private:
  using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

  PcapWriter(File file, std::string path, Duration wall_offset)
      : file_(std::move(file)), path_(std::move(path)), wall_offset_(wall_offset) {}

  File file_;
  std::string path_;
  Duration wall_offset_;  ///< Time of day less monotonic time, read once.
  uint64_t datagrams_ = 0;
};

}  // namespace sumcast::net

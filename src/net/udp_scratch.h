// The message headers that UdpSocket keeps ready for the kernel: private to udp*.cc.
//
// All that stays the same from call to call (control buffers, iovec pointers) is set once here, so
// that a call writes only what differs.
#pragma once

#include <netinet/udp.h>
#include <sys/socket.h>

#include <array>
#include <cstring>

#include "net/udp.h"

namespace sumcast::net {

/// Room for one control message of an int or smaller, aligned as the kernel wants it.
union OneControl {
  cmsghdr header;
  std::array<char, CMSG_SPACE(sizeof(int))> bytes;
};

struct UdpSocket::Scratch {
  static constexpr uint32_t kPartsMax = 1024;  // The kernel's limit per message, UIO_MAXIOV.

  std::array<mmsghdr, kMessagesMax> send{};
  std::array<OneControl, kMessagesMax> send_control{};  // UDP_SEGMENT, its value to be written.
  std::array<iovec, kPartsMax> send_parts{};            // Only for runs that are split.

  std::array<mmsghdr, kMessagesMax> receive{};
  std::array<OneControl, kMessagesMax> receive_control{};
  std::array<iovec, kMessagesMax> receive_parts{};

  Scratch() {
    for (uint32_t i = 0; i < kMessagesMax; ++i) {
      cmsghdr& header = send_control[i].header;
      header.cmsg_level = SOL_UDP;
      header.cmsg_type = UDP_SEGMENT;
      header.cmsg_len = CMSG_LEN(sizeof(uint16_t));
      receive[i].msg_hdr.msg_iov = &receive_parts[i];
      receive[i].msg_hdr.msg_iovlen = 1;
    }
  }

  /// Attaches the control message "cut into pieces of so many bytes" to message `i`, or takes it
  /// off for a message that is a single datagram.
  void set_segment_bytes(uint32_t i, uint32_t datagrams, uint32_t datagram_bytes) {
    msghdr& message = send[i].msg_hdr;
    if (datagrams == 1) {
      message.msg_control = nullptr;
      message.msg_controllen = 0;
      return;
    }
    const auto value = static_cast<uint16_t>(datagram_bytes);
    std::memcpy(CMSG_DATA(&send_control[i].header), &value, sizeof value);
    message.msg_control = &send_control[i];
    message.msg_controllen = CMSG_SPACE(sizeof value);
  }
};

}  // namespace sumcast::net

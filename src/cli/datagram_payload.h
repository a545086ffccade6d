// What a datagram carries in an Ethernet packet of 1,500 bytes: for choices that are made before
// anybody has joined and measured the path.
#pragma once

#include <cstddef>

#include "wire/header.h"

namespace sumcast::cli {

inline constexpr size_t kIpv4UdpBytes = 20 + 8;
inline constexpr size_t kDatagramPayloadBytes =
    1500 - kIpv4UdpBytes - wire::kHeaderBytes - wire::kTagBytes;

}  // namespace sumcast::cli

#include "net/udp.h"

#include <fmt/format.h>
#include <linux/sock_diag.h>
#include <sys/socket.h>

#include <cerrno>

#include "net/port_owner.h"
#include "net/udp_scratch.h"

namespace sumcast::net {
namespace {

Result<Endpoint> bound_address(int fd) {
  Endpoint local;
  socklen_t bytes = Endpoint::kRawBytesMax;
  if (::getsockname(fd, local.raw_target(), &bytes) != 0) {
    return fail(system_error("cannot read a socket's own address", errno));
  }
  local.assume_filled(bytes);
  return local;
}

/// PROBE sets the don't-fragment bit and ignores path MTUs that were learnt from ICMP, which anyone
/// can send: a datagram is refused only if it exceeds the MTU of our own interface.
int forbid_fragments(int fd, const UdpOptions& options) {
  if (options.local.family() == Family::kIpv6) {
    const int error = set_option(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE);
    if (error != 0 || !options.dual_stack) return error;
  }
  return set_option(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE);
}

in_addr ipv4_of(const Endpoint& endpoint) {
  SUMCAST_ASSERT(endpoint.family() == Family::kIpv4);
  return reinterpret_cast<const sockaddr_in*>(endpoint.raw())->sin_addr;
}

Result<void> set_options(int fd, const UdpOptions& options) {
  const struct {
    bool wanted;
    int level, name, value;
    const char* what;
  } kOptions[] = {
      {options.reuse_port, SOL_SOCKET, SO_REUSEPORT, 1, "SO_REUSEPORT"},
      {options.reuse_address, SOL_SOCKET, SO_REUSEADDR, 1, "SO_REUSEADDR"},
      {options.local.family() == Family::kIpv6, IPPROTO_IPV6, IPV6_V6ONLY, !options.dual_stack,
       "IPV6_V6ONLY"},
      {options.receive_buffer_bytes > 0, SOL_SOCKET, SO_RCVBUF, options.receive_buffer_bytes,
       "SO_RCVBUF"},
      {options.send_buffer_bytes > 0, SOL_SOCKET, SO_SNDBUF, options.send_buffer_bytes,
       "SO_SNDBUF"},
  };
  for (const auto& option : kOptions) {
    if (!option.wanted) continue;
    const int error = set_option(fd, option.level, option.name, option.value);
    if (error != 0) {
      return fail(system_error(fmt::format("cannot set {} on a UDP socket", option.what), error));
    }
  }
  if (options.dont_fragment) {
    const int error = forbid_fragments(fd, options);
    if (error != 0) return fail(system_error("cannot forbid fragments on a UDP socket", error));
  }
  return {};
}

}  // namespace

UdpSocket::UdpSocket(FileDescriptor fd, bool gso, bool gro)
    : fd_(std::move(fd)), gso_(gso), gro_(gro), scratch_(std::make_unique<Scratch>()) {}

UdpSocket::UdpSocket(UdpSocket&&) noexcept = default;
UdpSocket& UdpSocket::operator=(UdpSocket&&) noexcept = default;
UdpSocket::~UdpSocket() = default;

Result<UdpSocket> UdpSocket::open(const UdpOptions& options) {
  if (!options.local.is_set()) {
    return fail(ErrorCode::kInvalidArgument, "a UDP socket needs a local address");
  }
  const int family = static_cast<int>(options.local.family());
  FileDescriptor fd(::socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.is_open()) {
    return fail(system_error(
        fmt::format("cannot open an {} UDP socket", name_of(options.local.family())), errno));
  }
  if (const auto set = set_options(fd.get(), options); !set) return fail(set.error());
  // A socket gets what it joined, not what others of this host did. Kernels without it are older
  // than any that has UDP_SEGMENT.
  (void)set_option(fd.get(), IPPROTO_IP, IP_MULTICAST_ALL, 0);
  if (::bind(fd.get(), options.local.raw(), options.local.raw_bytes()) != 0) {
    return fail(bind_error(Transport::kUdp, options.local, errno));
  }
  // Both probes ask the kernel only. A device may yet prove unable to segment: see send_many.
  const bool gso = options.gso && set_option(fd.get(), SOL_UDP, UDP_SEGMENT, 0) == 0;
  const bool gro = options.gro && set_option(fd.get(), SOL_UDP, UDP_GRO, 1) == 0;
  UdpSocket socket(std::move(fd), gso, gro);
  const auto local = bound_address(socket.fd());
  if (!local) return fail(local.error());
  socket.local_ = *local;
  return socket;
}

Result<void> UdpSocket::connect(const Endpoint& peer) {
  if (::connect(fd_.get(), peer.raw(), peer.raw_bytes()) != 0) {
    const int error = errno;
    if (error == ENETUNREACH || error == EHOSTUNREACH) {
      return fail(ErrorCode::kUnavailable,
                  fmt::format("no route from {} to {}", local_.text(), peer.text()));
    }
    return fail(system_error(
        fmt::format("cannot connect a UDP socket at {} to {}", local_.text(), peer.text()), error));
  }
  connected_ = true;
  const auto local = bound_address(fd_.get());  // A wildcard has become the routed address.
  if (!local) return fail(local.error());
  local_ = *local;
  return {};
}

Result<void> UdpSocket::join_group(const Endpoint& interface) {
  ip_mreqn request{};
  request.imr_multiaddr = ipv4_of(local_);
  request.imr_address = ipv4_of(interface);
  if (::setsockopt(fd_.get(), IPPROTO_IP, IP_ADD_MEMBERSHIP, &request, sizeof request) == 0) {
    return {};
  }
  return fail(system_error(fmt::format("cannot join the multicast group {} at {}",
                                       local_.address_text(), interface.address_text()),
                           errno));
}

Result<void> UdpSocket::send_to_groups(bool this_host) {
  constexpr int kThisLink = 1;
  ip_mreqn request{};
  request.imr_address = ipv4_of(local_);
  int error = 0;
  if (::setsockopt(fd_.get(), IPPROTO_IP, IP_MULTICAST_IF, &request, sizeof request) != 0) {
    error = errno;
  }
  if (error == 0) error = set_option(fd_.get(), IPPROTO_IP, IP_MULTICAST_TTL, kThisLink);
  if (error == 0) error = set_option(fd_.get(), IPPROTO_IP, IP_MULTICAST_LOOP, this_host);
  if (error == 0) return {};
  return fail(system_error(
      fmt::format("cannot send to multicast groups from {}", local_.address_text()), error));
}

int UdpSocket::receive_buffer_bytes() const { return get_option(fd_.get(), SOL_SOCKET, SO_RCVBUF); }

int UdpSocket::send_buffer_bytes() const { return get_option(fd_.get(), SOL_SOCKET, SO_SNDBUF); }

uint64_t UdpSocket::receive_drops() {
  uint32_t info[SK_MEMINFO_VARS] = {};
  socklen_t bytes = sizeof info;
  if (::getsockopt(fd_.get(), SOL_SOCKET, SO_MEMINFO, info, &bytes) == 0) {
    drops_ += info[SK_MEMINFO_DROPS] - drops_seen_;  // Right across a wrap of the 32 bits.
    drops_seen_ = info[SK_MEMINFO_DROPS];
  }
  return drops_;
}

std::optional<std::string> receive_buffer_advice(int wanted, int got) {
  const int granted = got / 2;
  if (granted >= wanted) return std::nullopt;
  return fmt::format(
      "asked for a receive buffer of {} bytes, but the kernel grants {}; bursts may be dropped. "
      "Allow more with: sysctl -w net.core.rmem_max={}",
      wanted, granted, wanted);
}

}  // namespace sumcast::net

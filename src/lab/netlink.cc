#include "lab/netlink.h"

#include <fmt/format.h>
#include <linux/gen_stats.h>
#include <linux/if.h>
#include <linux/netlink.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <type_traits>

namespace sumcast::lab {
namespace {

// The kernel fills at most 32 KiB per answer of a dump.
constexpr size_t kAnswerBytesMax = 65536;

Error system_error(const char* doing) {
  return {ErrorCode::kSystem, fmt::format("netlink: {}: {}", doing, std::strerror(errno))};
}

// Attributes are 4-byte aligned records {length, type, payload}; visits each.
template <typename Visit>
void for_each_attribute(std::string_view bytes, Visit visit) {
  while (bytes.size() >= sizeof(rtattr)) {
    rtattr header{};
    std::memcpy(&header, bytes.data(), sizeof header);
    if (header.rta_len < sizeof header || header.rta_len > bytes.size()) return;
    visit(header.rta_type & NLA_TYPE_MASK,
          bytes.substr(sizeof header, header.rta_len - sizeof header));
    bytes.remove_prefix(std::min<size_t>(RTA_ALIGN(header.rta_len), bytes.size()));
  }
}

// Older kernels send shorter structures: what is missing stays zero.
template <typename T>
T read_as(std::string_view bytes) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value{};
  std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof value));
  return value;
}

std::string read_string(std::string_view bytes) {
  return std::string(bytes.substr(0, bytes.find('\0')));
}

template <typename Body>
std::string_view attributes_of(const std::vector<char>& message) {
  const size_t skip = std::min<size_t>(NLMSG_SPACE(sizeof(Body)), message.size());
  return std::string_view(message.data(), message.size()).substr(skip);
}

template <typename Body>
Body body_of(const std::vector<char>& message) {
  return read_as<Body>(std::string_view(message.data(), message.size()).substr(NLMSG_HDRLEN));
}

QdiscCounters read_counters(std::string_view stats) {
  QdiscCounters counters;
  for_each_attribute(stats, [&](int type, std::string_view payload) {
    if (type == TCA_STATS_BASIC) {
      const auto basic = read_as<gnet_stats_basic>(payload);
      counters.bytes = basic.bytes;
      if (counters.packets == 0) counters.packets = basic.packets;
    } else if (type == TCA_STATS_PKT64) {
      counters.packets = read_as<uint64_t>(payload);  // Sent once the short one has overflowed.
    } else if (type == TCA_STATS_QUEUE) {
      const auto queue = read_as<gnet_stats_queue>(payload);
      counters.drops = queue.drops;
      counters.backlog_bytes = queue.backlog;
      counters.backlog_packets = queue.qlen;
    }
  });
  return counters;
}

}  // namespace

Result<Netlink> Netlink::open() {
  Fd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (!socket) return fail(system_error("socket"));
  return Netlink(std::move(socket));
}

Result<std::vector<std::vector<char>>> Netlink::dump(int type, size_t body_bytes, int answer) {
  std::array<char, NLMSG_SPACE(64)> request{};
  nlmsghdr header{};
  header.nlmsg_len = static_cast<uint32_t>(NLMSG_LENGTH(body_bytes));
  header.nlmsg_type = static_cast<uint16_t>(type);
  header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  header.nlmsg_seq = ++sequence_;
  std::memcpy(request.data(), &header, sizeof header);
  if (::send(socket_.get(), request.data(), header.nlmsg_len, 0) < 0) {
    return fail(system_error("send"));
  }
  std::vector<std::vector<char>> messages;
  std::vector<char> buffer(kAnswerBytesMax);
  for (;;) {
    const ssize_t got = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(system_error("receive"));
    std::string_view rest(buffer.data(), static_cast<size_t>(got));
    while (rest.size() >= sizeof(nlmsghdr)) {
      const auto part = read_as<nlmsghdr>(rest);
      if (part.nlmsg_len < sizeof part || part.nlmsg_len > rest.size()) break;
      const std::string_view message = rest.substr(0, part.nlmsg_len);
      rest.remove_prefix(std::min<size_t>(NLMSG_ALIGN(part.nlmsg_len), rest.size()));
      if (part.nlmsg_seq != sequence_) continue;  // Left over from a dump that failed.
      if (part.nlmsg_type == NLMSG_DONE) return messages;
      if (part.nlmsg_type == NLMSG_ERROR) {
        errno = -read_as<nlmsgerr>(message.substr(NLMSG_HDRLEN)).error;
        return fail(system_error("dump"));
      }
      if (part.nlmsg_type == answer) messages.emplace_back(message.begin(), message.end());
    }
  }
}

Result<std::vector<QdiscReading>> Netlink::root_qdiscs() {
  const auto messages = dump(RTM_GETQDISC, sizeof(tcmsg), RTM_NEWQDISC);
  if (!messages) return fail(messages.error());
  std::vector<QdiscReading> readings;
  for (const std::vector<char>& message : *messages) {
    const auto body = body_of<tcmsg>(message);
    if (body.tcm_parent != TC_H_ROOT) continue;
    QdiscReading reading;
    reading.interface_index = body.tcm_ifindex;
    for_each_attribute(attributes_of<tcmsg>(message), [&](int type, std::string_view payload) {
      if (type == TCA_KIND) reading.kind = read_string(payload);
      if (type == TCA_STATS2) reading.counters = read_counters(payload);
    });
    readings.push_back(std::move(reading));
  }
  return readings;
}

Result<std::vector<InterfaceReading>> Netlink::interfaces() {
  const auto messages = dump(RTM_GETLINK, sizeof(ifinfomsg), RTM_NEWLINK);
  if (!messages) return fail(messages.error());
  std::vector<InterfaceReading> readings;
  for (const std::vector<char>& message : *messages) {
    InterfaceReading reading;
    reading.interface_index = body_of<ifinfomsg>(message).ifi_index;
    for_each_attribute(attributes_of<ifinfomsg>(message), [&](int type, std::string_view payload) {
      if (type == IFLA_IFNAME) reading.name = read_string(payload);
      if (type == IFLA_OPERSTATE) reading.up = read_as<uint8_t>(payload) == IF_OPER_UP;
    });
    readings.push_back(std::move(reading));
  }
  return readings;
}

}  // namespace sumcast::lab

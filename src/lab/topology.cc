#include "lab/topology.h"

#include <fmt/format.h>

#include "base/assert.h"

namespace sumcast::lab {
namespace {

// Workers per third byte of the address, so that no address ends in 0 or 255.
constexpr int kWorkersPerNet = 250;
// Larger clusters ask for hardware addresses as they go: all of all would be tens of thousands.
constexpr size_t kNeighboursMax = 32;

std::string address_in(const char* prefix, Node node) {
  switch (node.kind) {
    case Node::Kind::kAggregator:
      return fmt::format("{}.0.1", prefix);
    case Node::Kind::kServer:
      return fmt::format("{}.0.2", prefix);
    case Node::Kind::kWorker:
      break;
  }
  SUMCAST_ASSERT(node.worker >= 0 && node.worker < kWorkersMax);
  return fmt::format("{}.{}.{}", prefix, 1 + node.worker / kWorkersPerNet,
                     1 + node.worker % kWorkersPerNet);
}

// The burst must hold a whole segmentation batch (64 KiB and headers), or tbf cuts it up packet by
// packet. The pfifo does nothing but count: unlike the default discipline it counts datagrams.
std::string discipline(uint64_t rate_bits_per_second) {
  if (rate_bits_per_second == 0) return "pfifo limit 10000";
  return fmt::format("tbf rate {}bit burst 128kb limit 1mb", rate_bits_per_second);
}

uint64_t rate_of(const ClusterOptions& options, Node node) {
  return node.kind == Node::Kind::kServer ? options.server_rate() : options.rate_bits_per_second;
}

std::string address_lines(const ClusterOptions& options, Node node, const char* interface) {
  std::string lines =
      fmt::format("addr add {}/16 brd + dev {}\n", cluster_address(node), interface);
  if (options.has_ipv6()) {
    lines += fmt::format("addr add {}/64 dev {} nodad\n", cluster_address6(node), interface);
  }
  return lines;
}

/// Locally administered, and the node's alone within its cluster.
std::string hardware_address(Node node) {
  switch (node.kind) {
    case Node::Kind::kAggregator:
      return "02:77:00:00:00:01";
    case Node::Kind::kServer:
      return "02:77:00:00:00:02";
    case Node::Kind::kWorker:
      break;
  }
  return fmt::format("02:77:00:01:{:02x}:{:02x}", node.worker / 256, node.worker % 256);
}

/// Where the others are, for good. What is looked up instead goes into a table that all namespaces
/// of the machine share: while it is full (1,024 entries), because others run large clusters,
/// nobody is found.
std::string neighbour_lines(const ClusterOptions& options, Node node, const char* interface) {
  std::vector<Node> all = linked_nodes(options);
  if (all.size() > kNeighboursMax) return "";
  all.push_back(Node::aggregator());
  std::string lines;
  for (const Node other : all) {
    if (other == node) continue;
    lines += fmt::format("neigh replace {} lladdr {} dev {} nud permanent\n",
                         cluster_address(other), hardware_address(other), interface);
  }
  return lines;
}

}  // namespace

std::string name_of(Node node) {
  switch (node.kind) {
    case Node::Kind::kAggregator:
      return "aggregator";
    case Node::Kind::kServer:
      return "server";
    case Node::Kind::kWorker:
      break;
  }
  return fmt::format("worker {}", node.worker);
}

Result<void> validate(const ClusterOptions& options) {
  if (options.workers < 1 || options.workers > kWorkersMax) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("workers = {}: a cluster has 1 to {} workers", options.workers, kWorkersMax));
  }
  if (options.mtu < 576 || options.mtu > 65535) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("mtu = {}: an MTU is 576 to 65535 bytes", options.mtu));
  }
  return {};
}

std::string port_name(Node node) {
  return node.kind == Node::Kind::kServer ? "portserver" : fmt::format("port{}", node.worker);
}

std::string cluster_address(Node node) { return address_in("10.77", node); }

std::string loopback_address(Node node) { return address_in("127.0", node); }

std::string cluster_address6(Node node) {
  switch (node.kind) {
    case Node::Kind::kAggregator:
      return "fd77:5c::1";
    case Node::Kind::kServer:
      return "fd77:5c::2";
    case Node::Kind::kWorker:
      break;
  }
  return fmt::format("fd77:5c::1:{:x}", node.worker + 1);
}

std::vector<Node> linked_nodes(const ClusterOptions& options) {
  std::vector<Node> nodes;
  for (int worker = 0; worker < options.workers; ++worker) nodes.push_back(Node::of_worker(worker));
  if (options.with_server) nodes.push_back(Node::server());
  return nodes;
}

std::string ip_script_of_bridge(const ClusterOptions& options,
                                const std::vector<std::string>& namespace_paths) {
  const std::vector<Node> nodes = linked_nodes(options);
  SUMCAST_ASSERT(namespace_paths.size() == nodes.size());
  // Without a forwarding delay ports work at once. Without snooping a multicast goes to every port,
  // from the first datagram on; with it, that depends on timers of 10 s and more.
  std::string script = fmt::format(
      "link set lo up\n"
      "link add {0} address {2} mtu {1} type bridge stp_state 0 forward_delay 0 mcast_snooping 0\n",
      kBridgeName, options.mtu, hardware_address(Node::aggregator()));
  for (size_t i = 0; i < nodes.size(); ++i) {
    const std::string port = port_name(nodes[i]);
    script +=
        fmt::format("link add {0} mtu {1} type veth peer name {2} address {3} mtu {1} netns {4}\n",
                    port, options.mtu, kLinkName, hardware_address(nodes[i]), namespace_paths[i]);
    script += fmt::format("link set {} master {} up\n", port, kBridgeName);
  }
  script += address_lines(options, Node::aggregator(), kBridgeName);
  script += fmt::format("link set {} up\n", kBridgeName);
  script += neighbour_lines(options, Node::aggregator(), kBridgeName);
  return script;
}

std::string ip_script_of_node(const ClusterOptions& options, Node node) {
  return "link set lo up\n" + address_lines(options, node, kLinkName) +
         fmt::format("link set {} up\n", kLinkName) + neighbour_lines(options, node, kLinkName);
}

std::string tc_script_of_bridge(const ClusterOptions& options) {
  std::string script;
  for (const Node node : linked_nodes(options)) {
    script += fmt::format("qdisc replace dev {} root {}\n", port_name(node),
                          discipline(rate_of(options, node)));
  }
  return script;
}

std::string tc_script_of_node(const ClusterOptions& options, Node node) {
  return fmt::format("qdisc replace dev {} root {}\n", kLinkName,
                     discipline(rate_of(options, node)));
}

}  // namespace sumcast::lab

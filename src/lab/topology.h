// The cluster's plan as text: who has which address, and what `ip` and `tc` are told.
//
// Pure. A worker's link is a veth pair: `link0` inside the worker's namespace and a port of a
// bridge in the aggregator's. Shaping sits at both ends' egress, so that each direction of the link
// has the rate of a cable:
//
//     worker w                         aggregator = the switch
//     link0 [tbf: uplink] ===== port<w> [tbf: downlink] -- bridge sum0 (unshaped)
//                                                          |
//     server: link0 [tbf] ===== portserver [tbf] ----------+
//
// The aggregator itself talks through the bridge's own interface, which has no rate: a switch has a
// port per worker. A *server* is what a parameter server is, one more host behind one link.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace sumcast::lab {

inline constexpr int kWorkersMax = 256;

/// One host of a cluster.
struct Node {
  enum class Kind : uint8_t { kAggregator, kServer, kWorker };
  Kind kind = Kind::kAggregator;
  int worker = 0;  ///< Index from 0, for kWorker.

  static constexpr Node aggregator() { return {Kind::kAggregator, 0}; }
  static constexpr Node server() { return {Kind::kServer, 0}; }
  static constexpr Node of_worker(int index) { return {Kind::kWorker, index}; }
  constexpr auto operator<=>(const Node&) const = default;
};

/// "aggregator", "server", "worker 3".
std::string name_of(Node node);

struct ClusterOptions {
  int workers = 2;                    ///< 1..kWorkersMax.
  uint64_t rate_bits_per_second = 0;  ///< Of each worker's link, each direction; 0 is unshaped.
  bool with_server = false;           ///< Whether there is a server node.
  uint64_t server_rate_bits_per_second = 0;  ///< Of the server's link; 0: like a worker's.
  int mtu = 1500;                            ///< 576..65535, of all links.
  /// Of TCP on all nodes, so that peers meet the same one on every machine; Debian's default. One
  /// that the kernel does not have, or "", leaves the machine's own.
  std::string tcp_congestion_control = "cubic";

  uint64_t server_rate() const {
    return server_rate_bits_per_second != 0 ? server_rate_bits_per_second : rate_bits_per_second;
  }
  /// IPv6 demands 1280 bytes of every link; smaller ones get IPv4 only.
  bool has_ipv6() const { return mtu >= 1280; }
};

/// kInvalidArgument with the field's name, its value and the range.
Result<void> validate(const ClusterOptions& options);

/// Name of the interface inside a node.
inline constexpr const char* kBridgeName = "sum0";
inline constexpr const char* kLinkName = "link0";
/// Name, in the aggregator's namespace, of the bridge port that leads to a worker or the server.
std::string port_name(Node node);

/// 10.77.0.1 (aggregator), 10.77.0.2 (server), 10.77.1.1 ... 10.77.1.250, 10.77.2.1 ... (workers),
/// all in 10.77.0.0/16.
std::string cluster_address(Node node);
/// fd77:5c::1, fd77:5c::2, fd77:5c::1:<worker + 1, in hex>, all in fd77:5c::/64.
std::string cluster_address6(Node node);
/// The same scheme in 127.0.0.0/16: 127.0.0.1, 127.0.0.2, 127.0.1.1 ...
std::string loopback_address(Node node);

/// The nodes that have a link: workers in order, then the server if there is one.
std::vector<Node> linked_nodes(const ClusterOptions& options);

/// For `ip -batch` in the aggregator's namespace: the bridge and all veth pairs, their far ends
/// created in the namespaces at `namespace_paths` (in the order of linked_nodes). Far ends stay
/// down, ports come up.
std::string ip_script_of_bridge(const ClusterOptions& options,
                                const std::vector<std::string>& namespace_paths);
/// For `ip -batch` in a linked node's namespace.
std::string ip_script_of_node(const ClusterOptions& options, Node node);
/// For `tc -batch`: downlinks, in the aggregator's namespace; one uplink, in a node's.
std::string tc_script_of_bridge(const ClusterOptions& options);
std::string tc_script_of_node(const ClusterOptions& options, Node node);

}  // namespace sumcast::lab

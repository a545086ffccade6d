// A cluster of hosts on one machine: network namespaces joined by a bridge (topology.h), or, where
// those are not to be had, plain processes on loopback behind the same interface.
//
// The namespaces have no names and no processes of their own. They exist because this object holds
// descriptors of them and because spawned processes run in them; when the program ends, in whatever
// way, the kernel closes the descriptors, kills the processes (process.h), and removes namespaces,
// links and disciplines. So there is nothing that could be left behind, and no name that could
// collide.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "lab/fd.h"
#include "lab/netlink.h"
#include "lab/process.h"
#include "lab/topology.h"

namespace sumcast::lab {

/// Both directions of one node's link, as its queueing disciplines count them.
struct LinkCounters {
  QdiscCounters up;    ///< From the node: the discipline on its own side.
  QdiscCounters down;  ///< To the node: the discipline on the bridge's port.
};

/// One thread at a time. Moves; outlives nothing: processes keep their namespaces alive.
class Cluster {
 public:
  /// Builds namespaces, links and shaping; returns when all links are up. Needs the privileges that
  /// enter_user_namespace_if_needed() provides, and `ip` and `tc`.
  static Result<Cluster> build(const ClusterOptions& options);
  /// The same nodes as addresses of 127.0.0.0/8, without links, rates or counters.
  static Result<Cluster> on_loopback(const ClusterOptions& options);

  const ClusterOptions& options() const { return options_; }
  /// False on loopback.
  bool has_links() const { return !nodes_.empty(); }

  /// The IPv4 address of a node.
  std::string address(Node node) const;
  /// Its IPv6 address; "::1" for all nodes on loopback.
  std::string address6(Node node) const;
  /// Name of the interface that carries those addresses, inside the node.
  std::string interface(Node node) const;
  /// A path that nsenter(1) and `ip link set netns` take for a node's namespace, for as long as
  /// this object lives; "/proc/self/ns/net" on loopback.
  std::string namespace_path(Node node) const;

  /// Runs a program on a node.
  Result<Process> spawn(Node node, const std::vector<std::string>& argv,
                        const SpawnOptions& options = {}) const;
  /// Moves the *calling thread* to a node: sockets that it opens from now on are there. Meant for
  /// threads that play one node; nothing happens on loopback.
  Result<void> enter(Node node) const;

  /// Counters of all links: workers in order, then the server if there is one. Empty on loopback.
  Result<std::vector<LinkCounters>> all_counters();
  /// Counters of one node's link; zeros on loopback.
  Result<LinkCounters> counters(Node node);
  /// Waits until no link has anything queued. kTimeout names a link that still has.
  Result<void> drain(Duration timeout);

 private:
  struct Site {
    Fd network_namespace;
    Netlink netlink;
    int link_index = 0;  ///< Of the node's own interface, in its namespace.
    int port_index = 0;  ///< Of its port, in the aggregator's namespace.
  };

  Cluster() = default;

  Result<void> create_namespaces();
  Result<void> create_links();
  Result<void> configure_nodes();
  /// Waits until every link has carrier at both ends and learns the interfaces' indices.
  Result<void> wait_for_links();
  size_t site_index(Node node) const;
  const Site& site_of(Node node) const { return nodes_[site_index(node)]; }

  ClusterOptions options_;
  std::vector<Site> nodes_;  // In the order of linked_nodes(), then the aggregator.
};

}  // namespace sumcast::lab

#include "lab/cluster.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <thread>

#include "base/assert.h"

namespace sumcast::lab {
namespace {

constexpr Duration kCommandTimeout = 60s;
constexpr Duration kCarrierTimeout = 10s;
constexpr Duration kPollInterval = 1ms;
// How many namespaces are configured at once; each takes a short-lived program.
constexpr size_t kParallelCommands = 16;

Instant now() {
  return Instant{std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1)};
}

// Settings of the calling thread's network namespace. Some are not there on every kernel or may not
// be written inside a user namespace; none is needed for the cluster to work.
void apply_sysctls(const ClusterOptions& options) {
  static constexpr const char* kSettings[][2] = {
      // Addresses work at once, and nobody looks for routers or makes up further addresses.
      {"net/ipv6/conf/all/accept_dad", "0"},
      {"net/ipv6/conf/default/accept_dad", "0"},
      {"net/ipv6/conf/default/accept_ra", "0"},
      {"net/ipv6/conf/default/autoconf", "0"},
      {"net/ipv6/conf/default/router_solicitations", "0"},
      {"net/ipv6/conf/default/addr_gen_mode", "1"},
      // Bridged packets need not visit netfilter.
      {"net/bridge/bridge-nf-call-iptables", "0"},
      {"net/bridge/bridge-nf-call-ip6tables", "0"},
      {"net/bridge/bridge-nf-call-arptables", "0"},
      // ping(8) without raw sockets.
      {"net/ipv4/ping_group_range", "0 0"},
      // A TCP run starts from nothing, not from the losses of the run before.
      {"net/ipv4/tcp_no_metrics_save", "1"},
  };
  for (const auto& [path, value] : kSettings) {
    std::ofstream(std::string("/proc/sys/") + path) << value;
  }
  if (!options.tcp_congestion_control.empty()) {
    std::ofstream("/proc/sys/net/ipv4/tcp_congestion_control") << options.tcp_congestion_control;
  }
}

}  // namespace

Result<Cluster> Cluster::build(const ClusterOptions& options) {
  if (Result<void> valid = validate(options); !valid) return fail(valid.error());
  Cluster cluster;
  cluster.options_ = options;
  for (const auto step : {&Cluster::create_namespaces, &Cluster::create_links,
                          &Cluster::configure_nodes, &Cluster::wait_for_links}) {
    if (Result<void> done = (cluster.*step)(); !done) {
      return fail(done.error().within("building the cluster"));
    }
  }
  return cluster;
}

Result<Cluster> Cluster::on_loopback(const ClusterOptions& options) {
  if (Result<void> valid = validate(options); !valid) return fail(valid.error());
  Cluster cluster;
  cluster.options_ = options;
  return cluster;
}

Result<void> Cluster::create_namespaces() {
  const size_t count = linked_nodes(options_).size() + 1;
  Result<void> outcome;
  // A thread can be in another namespace than the rest of its process, so a short-lived one creates
  // them all and this thread never moves.
  std::thread maker([&] {
    for (size_t i = 0; i < count; ++i) {
      if (::unshare(CLONE_NEWNET) != 0) {
        outcome = fail(ErrorCode::kDenied,
                       fmt::format("cannot create a network namespace: {}", std::strerror(errno)));
        return;
      }
      Fd handle(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
      Result<Netlink> netlink = Netlink::open();
      if (!handle || !netlink) {
        outcome = fail(ErrorCode::kSystem, "cannot open a new network namespace");
        return;
      }
      apply_sysctls(options_);
      nodes_.push_back(Site{std::move(handle), std::move(*netlink), 0, 0});
    }
  });
  maker.join();
  return outcome;
}

Result<void> Cluster::create_links() {
  std::vector<std::string> paths;
  for (const Node node : linked_nodes(options_)) paths.push_back(namespace_path(node));
  const int aggregator = site_of(Node::aggregator()).network_namespace.get();
  const auto made = run_to_end({"ip", "-batch", "-"}, ip_script_of_bridge(options_, paths),
                               kCommandTimeout, aggregator);
  if (!made) return fail(made.error());
  const auto shaped =
      run_to_end({"tc", "-batch", "-"}, tc_script_of_bridge(options_), kCommandTimeout, aggregator);
  if (!shaped) return fail(shaped.error());
  return {};
}

Result<void> Cluster::configure_nodes() {
  struct Command {
    Node node;
    const char* program;
    std::string script;
  };
  std::vector<Command> commands;
  for (const Node node : linked_nodes(options_)) {
    commands.push_back({node, "tc", tc_script_of_node(options_, node)});
    commands.push_back({node, "ip", ip_script_of_node(options_, node)});
  }
  SpawnOptions spawning;
  spawning.input = Redirect::pipe();
  spawning.output = Redirect::pipe();
  spawning.errors = Redirect::merge();
  for (size_t begin = 0; begin < commands.size(); begin += kParallelCommands) {
    const size_t end = std::min(begin + kParallelCommands, commands.size());
    std::vector<Process> running;
    for (size_t i = begin; i < end; ++i) {
      Result<Process> process =
          spawn(commands[i].node, {commands[i].program, "-batch", "-"}, spawning);
      if (!process) return fail(process.error());
      static_cast<void>(process->write_input(commands[i].script));  // Its status tells.
      process->close_input();
      running.push_back(std::move(*process));
    }
    for (size_t i = begin; i < end; ++i) {
      Process& process = running[i - begin];
      const Result<std::string> output = process.read_output(kCommandTimeout);
      if (!output) return fail(output.error());
      const Result<ExitStatus> status = process.wait(kCommandTimeout);
      if (!status) return fail(status.error());
      if (!status->ok()) {
        return fail(ErrorCode::kSystem,
                    fmt::format("{}: {} failed with {}: {}", name_of(commands[i].node),
                                process.name(), status->describe(), *output));
      }
    }
  }
  return {};
}

Result<void> Cluster::wait_for_links() {
  const std::vector<Node> linked = linked_nodes(options_);
  const Instant deadline = now() + kCarrierTimeout;
  for (;;) {
    std::string missing;
    const Result<std::vector<InterfaceReading>> ports = nodes_.back().netlink.interfaces();
    if (!ports) return fail(ports.error());
    std::map<std::string, const InterfaceReading*> port_by_name;
    for (const InterfaceReading& port : *ports) port_by_name[port.name] = &port;
    for (size_t i = 0; i < linked.size(); ++i) {
      const auto links = nodes_[i].netlink.interfaces();
      if (!links) return fail(links.error());
      const auto link = std::find_if(links->begin(), links->end(),
                                     [](const auto& entry) { return entry.name == kLinkName; });
      const auto port = port_by_name.find(port_name(linked[i]));
      const bool up =
          link != links->end() && link->up && port != port_by_name.end() && port->second->up;
      if (!up) {
        missing = name_of(linked[i]);
        break;
      }
      nodes_[i].link_index = link->interface_index;
      nodes_[i].port_index = port->second->interface_index;
    }
    if (missing.empty()) return {};
    if (now() >= deadline) {
      return fail(ErrorCode::kTimeout, fmt::format("the link of {} did not come up", missing));
    }
    std::this_thread::sleep_for(kPollInterval);
  }
}

size_t Cluster::site_index(Node node) const {
  SUMCAST_ASSERT(has_links());
  switch (node.kind) {
    case Node::Kind::kAggregator:
      return nodes_.size() - 1;
    case Node::Kind::kServer:
      SUMCAST_ASSERT(options_.with_server);
      return nodes_.size() - 2;
    case Node::Kind::kWorker:
      break;
  }
  SUMCAST_ASSERT(node.worker >= 0 && node.worker < options_.workers);
  return static_cast<size_t>(node.worker);
}

std::string Cluster::address(Node node) const {
  return has_links() ? cluster_address(node) : loopback_address(node);
}

std::string Cluster::address6(Node node) const {
  return has_links() ? cluster_address6(node) : "::1";
}

std::string Cluster::interface(Node node) const {
  if (!has_links()) return "lo";
  return node == Node::aggregator() ? kBridgeName : kLinkName;
}

std::string Cluster::namespace_path(Node node) const {
  if (!has_links()) return "/proc/self/ns/net";
  return fmt::format("/proc/{}/fd/{}", ::getpid(), site_of(node).network_namespace.get());
}

Result<Process> Cluster::spawn(Node node, const std::vector<std::string>& argv,
                               const SpawnOptions& options) const {
  const int where = has_links() ? site_of(node).network_namespace.get() : -1;
  Result<Process> process = spawn_process(argv, options, where);
  if (!process) return fail(process.error().within(name_of(node)));
  return process;
}

Result<void> Cluster::enter(Node node) const {
  if (!has_links()) return {};
  if (::setns(site_of(node).network_namespace.get(), CLONE_NEWNET) != 0) {
    return fail(ErrorCode::kSystem,
                fmt::format("cannot enter {}: {}", name_of(node), std::strerror(errno)));
  }
  return {};
}

Result<std::vector<LinkCounters>> Cluster::all_counters() {
  std::vector<LinkCounters> counters(has_links() ? nodes_.size() - 1 : 0);
  if (counters.empty()) return counters;
  const Result<std::vector<QdiscReading>> ports = nodes_.back().netlink.root_qdiscs();
  if (!ports) return fail(ports.error().within(name_of(Node::aggregator())));
  std::map<int, const QdiscReading*> port_by_index;
  for (const QdiscReading& port : *ports) port_by_index[port.interface_index] = &port;
  for (size_t i = 0; i < counters.size(); ++i) {
    Site& site = nodes_[i];
    const Result<std::vector<QdiscReading>> links = site.netlink.root_qdiscs();
    if (!links) return fail(links.error());
    for (const QdiscReading& link : *links) {
      if (link.interface_index == site.link_index) counters[i].up = link.counters;
    }
    const auto port = port_by_index.find(site.port_index);
    if (port != port_by_index.end()) counters[i].down = port->second->counters;
  }
  return counters;
}

Result<LinkCounters> Cluster::counters(Node node) {
  if (!has_links()) return LinkCounters{};
  SUMCAST_ASSERT(node != Node::aggregator());
  const Result<std::vector<LinkCounters>> all = all_counters();
  if (!all) return fail(all.error());
  return (*all)[site_index(node)];
}

Result<void> Cluster::drain(Duration timeout) {
  const Instant deadline = now() + timeout;
  const std::vector<Node> linked = linked_nodes(options_);
  for (;;) {
    const Result<std::vector<LinkCounters>> all = all_counters();
    if (!all) return fail(all.error());
    const auto busy = std::find_if(all->begin(), all->end(), [](const LinkCounters& link) {
      return link.up.backlog_packets + link.down.backlog_packets > 0;
    });
    if (busy == all->end()) return {};
    if (now() >= deadline) {
      return fail(ErrorCode::kTimeout,
                  fmt::format("the link of {} still has {} packets queued",
                              name_of(linked[static_cast<size_t>(busy - all->begin())]),
                              busy->up.backlog_packets + busy->down.backlog_packets));
    }
    std::this_thread::sleep_for(kPollInterval);
  }
}

}  // namespace sumcast::lab

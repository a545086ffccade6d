#include "lab/mpi_launch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace sumcast::lab {
namespace {

struct Algorithm {
  const char* name;
  std::vector<std::string> launcher_arguments;
  std::vector<std::string> env;
};

std::vector<Algorithm> algorithms_of(MpiKind kind) {
  std::vector<Algorithm> algorithms = {{"auto", {}, {}}};
  if (kind == MpiKind::kOpenMpi) {
    const auto tuned = [](const char* name, const char* number) {
      return Algorithm{name,
                       {"--mca", "coll_tuned_use_dynamic_rules", "1", "--mca",
                        "coll_tuned_allreduce_algorithm", number},
                       {}};
    };
    algorithms.push_back(tuned("nonoverlapping", "2"));
    algorithms.push_back(tuned("recursive_doubling", "3"));
    algorithms.push_back(tuned("ring", "4"));
    algorithms.push_back(tuned("segmented_ring", "5"));
    // The default segment of 0 bytes would make it an ordinary ring.
    algorithms.back().launcher_arguments.insert(
        algorithms.back().launcher_arguments.end(),
        {"--mca", "coll_tuned_allreduce_algorithm_segmentsize", "1048576"});
    algorithms.push_back(tuned("rabenseifner", "6"));
    return algorithms;
  }
  // Blocking and nonblocking calls are steered by variables of their own, and device collectives
  // would choose before either is looked at. The ring exists only among the nonblocking ones, which
  // the blocking call can be sent to.
  const auto forced = [](const char* name, const char* blocking, const char* nonblocking) {
    return Algorithm{name,
                     {},
                     {"MPIR_CVAR_DEVICE_COLLECTIVES=none",
                      fmt::format("MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM={}", blocking),
                      fmt::format("MPIR_CVAR_IALLREDUCE_INTRA_ALGORITHM={}", nonblocking)}};
  };
  algorithms.push_back(
      forced("recursive_doubling", "recursive_doubling", "sched_recursive_doubling"));
  algorithms.push_back(
      forced("rabenseifner", "reduce_scatter_allgather", "sched_reduce_scatter_allgather"));
  algorithms.push_back(forced("ring", "nb", "tsp_ring"));
  return algorithms;
}

// `agent <host> <command ...>`, as ssh takes it: the rest is text for a shell. The UTS namespace
// gives each node a host name of its own, by which both launchers tell hosts apart. UCX, under
// MPICH, looks for network devices in /sys, which shows those of the namespace it was mounted in;
// hence a fresh one. (Where that is forbidden, Open MPI works all the same.)
std::string agent_script(const Cluster& cluster) {
  std::string script = "#!/bin/sh\nhost=$1; shift\ncase $host in\n";
  for (int worker = 0; worker < cluster.options().workers; ++worker) {
    const Node node = Node::of_worker(worker);
    script += fmt::format("{}) space={} name=worker{};;\n", cluster.address(node),
                          cluster.namespace_path(node), worker);
  }
  script +=
      "*) echo \"sumcast: $host is no worker's address\" >&2; exit 1;;\nesac\n"
      "exec nsenter --net=$space unshare --uts --mount /bin/sh -c "
      "'hostname \"$0\"; mount -t sysfs sysfs /sys 2>/dev/null; exec /bin/sh -c \"$1\"' "
      "$name \"$*\"\n";
  return script;
}

Result<Fd> executable_in_memory(const std::string& text) {
  const Fd writable(::memfd_create("sumcast-mpi-agent", MFD_CLOEXEC));
  const bool written =
      writable &&
      ::write(writable.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
      ::fchmod(writable.get(), 0700) == 0;
  // The kernel refuses to execute a file that is open for writing.
  Fd readable(written ? ::open(fmt::format("/proc/self/fd/{}", writable.get()).c_str(),
                               O_RDONLY | O_CLOEXEC)
                      : -1);
  if (!readable) {
    return fail(ErrorCode::kSystem,
                fmt::format("cannot keep a script in memory: {}", std::strerror(errno)));
  }
  return readable;
}

using Words = std::vector<std::string>;

void append(Words& words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
}

// ob1 over TCP is the transport that suits Ethernet; the yield keeps more ranks than processors
// from spinning each other out. Session files go to the container's private /dev/shm.
Words openmpi_words(const Cluster& cluster, Words hosts, int per_host, const std::string& agent) {
  Words words = {"mpirun.openmpi", "--allow-run-as-root", "-np",
                 std::to_string(static_cast<int>(hosts.size()) * per_host)};
  const auto set = [&](const char* name, const std::string& value) {
    append(words, {"--mca", name, value});
  };
  set("pml", "ob1");
  set("btl", per_host > 1 ? "vader,tcp,self" : "tcp,self");
  set("mpi_yield_when_idle", "1");
  if (!cluster.has_links()) {
    append(words, {"--oversubscribe"});
    set("btl_tcp_if_include", "lo");
    return words;
  }
  for (std::string& host : hosts) host += fmt::format(":{}", per_host);
  append(words, {"--host", fmt::format("{}", fmt::join(hosts, ",")), "--map-by",
                 per_host > 1 ? "slot" : "node"});
  append(words, {"--bind-to", "none"});
  set("plm", "rsh");
  set("plm_rsh_agent", agent);
  set("plm_rsh_no_tree_spawn", "1");
  set("oob_tcp_if_include", "10.77.0.0/16");
  set("btl_tcp_if_include", "10.77.0.0/16");
  set("orte_tmpdir_base", "/dev/shm");
  set("orte_keep_fqdn_hostnames", "1");
  return words;
}

// Debian's MPICH speaks UCX, which would find shared memory between ranks of one machine.
Words mpich_words(const Cluster& cluster, Words hosts, int per_host, const std::string& agent) {
  Words words = {"mpiexec.hydra", "-n", std::to_string(static_cast<int>(hosts.size()) * per_host)};
  if (!cluster.has_links()) {
    append(words, {"-launcher", "fork"});
  } else {
    append(words, {"-launcher", "rsh", "-launcher-exec", agent});
    for (std::string& host : hosts) host += fmt::format(":{}", per_host);
    append(words, {"-hosts", fmt::format("{}", fmt::join(hosts, ","))});
    append(words, {"-localhost", cluster.address(Node::aggregator())});
  }
  append(words, {"-genv", "UCX_TLS", per_host > 1 ? "sm,tcp,self" : "tcp,self"});
  append(words, {"-genv", "UCX_NET_DEVICES", cluster.interface(Node::of_worker(0))});
  return words;
}

}  // namespace

std::vector<std::string> mpi_algorithms(MpiKind kind) {
  std::vector<std::string> names;
  for (const Algorithm& algorithm : algorithms_of(kind)) names.emplace_back(algorithm.name);
  return names;
}

Result<Process> spawn_mpi(const Cluster& cluster, const MpiJob& job) {
  const std::vector<Algorithm> algorithms = algorithms_of(job.kind);
  const Algorithm* chosen = nullptr;
  for (const Algorithm& algorithm : algorithms) {
    if (job.algorithm == algorithm.name) chosen = &algorithm;
  }
  if (chosen == nullptr) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("this MPI has no all-reduce algorithm {}; it has {}", job.algorithm,
                            fmt::join(mpi_algorithms(job.kind), ", ")));
  }
  Result<Fd> agent = executable_in_memory(cluster.has_links() ? agent_script(cluster) : "");
  if (!agent) return fail(agent.error());
  const std::string agent_path = fmt::format("/proc/{}/fd/{}", ::getpid(), agent->get());
  Words hosts;
  for (int worker = 0; worker < cluster.options().workers; ++worker) {
    hosts.push_back(cluster.address(Node::of_worker(worker)));
  }
  Words words;
  SpawnOptions spawning = job.spawning;
  spawning.contain = cluster.has_links();
  if (job.kind == MpiKind::kOpenMpi) {
    words = openmpi_words(cluster, hosts, job.ranks_per_host, agent_path);
  } else {
    words = mpich_words(cluster, hosts, job.ranks_per_host, agent_path);
    for (const std::string& entry : chosen->env) {
      const size_t equals = entry.find('=');
      append(words, {"-genv", entry.substr(0, equals), entry.substr(equals + 1)});
    }
  }
  append(words, chosen->launcher_arguments);
  append(words, job.launcher_arguments);
  append(words, job.argv);
  Result<Process> process = cluster.spawn(Node::aggregator(), words, spawning);
  if (!process) return fail(process.error());
  process->hold(std::move(*agent));
  return process;
}

}  // namespace sumcast::lab

#include "cli/bench_site.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "auth/key_file.h"
#include "lab/privileges.h"
#include "runtime/units.h"

namespace sumcast::cli {
namespace {

// Below the ephemeral range (32768 up), so that no client socket sits there by chance.
constexpr uint16_t kFirstPort = 21700;
constexpr uint16_t kPortsPerRun = 1000;
constexpr Duration kDaemonPatience = 20s;

lab::ClusterOptions cluster_options(const BenchPlan& plan) {
  lab::ClusterOptions options;
  options.workers = static_cast<int>(plan.hosts());
  options.rate_bits_per_second = plan.rate_bits_per_second;
  options.with_server = plan.needs_server();
  options.mtu = static_cast<int>(plan.flags.mtu);
  return options;
}

/// Why there can be no namespaces; empty if there can.
std::optional<std::string> obstacle(const BenchPlan& plan) {
  if (plan.flags.loopback) return "--loopback was given";
  if (const Result<void> entered = lab::enter_user_namespace_if_needed(); !entered) {
    return entered.error().what;
  }
  return lab::why_no_namespaces();
}

}  // namespace

Result<ScratchDirectory> ScratchDirectory::create() {
  std::error_code ignored;
  std::string path = (std::filesystem::temp_directory_path(ignored) / "sumcast-XXXXXX").string();
  if (::mkdtemp(path.data()) == nullptr) {
    return fail(ErrorCode::kSystem,
                fmt::format("cannot create a directory like {}: {}", path, std::strerror(errno)));
  }
  return ScratchDirectory(std::move(path));
}

ScratchDirectory::~ScratchDirectory() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

std::string program_path() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "/proc/self/exe" : self.string();
}

std::string program_directory() {
  return std::filesystem::path(program_path()).parent_path().string();
}

Result<std::string> sibling_program(const std::string& name) {
  std::string path = program_directory() + "/" + name;
  if (::access(path.c_str(), X_OK) == 0) return path;
  return fail(
      ErrorCode::kUnavailable,
      fmt::format("{} is not there; it is built beside sumcast, peers only if their library "
                  "is installed (libgloo-dev, libopenmpi-dev, libmpich-dev)",
                  path));
}

Result<std::unique_ptr<BenchSite>> BenchSite::create(const BenchPlan& plan) {
  const std::optional<std::string> why = obstacle(plan);
  if (why) {
    if (plan.rate_bits_per_second != 0) {
      return fail(ErrorCode::kUnavailable,
                  fmt::format("--rate needs network namespaces: {}", *why));
    }
    fmt::print(stderr, "sumcast bench: {}\n", lab::loopback_notice(*why));
  }
  if (why && plan.flags.ranks_per_host > 1 && plan.hosts() > 1) {
    return fail(
        ErrorCode::kUnavailable,
        fmt::format("--ranks-per-host with several hosts needs network namespaces: {}", *why));
  }
  const lab::ClusterOptions options = cluster_options(plan);
  Result<lab::Cluster> cluster =
      why ? lab::Cluster::on_loopback(options) : lab::Cluster::build(options);
  if (!cluster) return fail(cluster.error());
  std::unique_ptr<BenchSite> site(new BenchSite(plan, std::move(*cluster)));
  // On loopback other programs share the ports, perhaps another bench: a place by process id.
  const int places = (32768 - kFirstPort) / kPortsPerRun;
  site->next_port_ = static_cast<uint16_t>(kFirstPort + ::getpid() % places * kPortsPerRun);
  if (plan.flags.insecure) return site;
  Result<ScratchDirectory> scratch = ScratchDirectory::create();
  if (!scratch) return fail(scratch.error());
  site->scratch_.emplace(std::move(*scratch));
  site->key_file_ = site->scratch_->path() + "/key";
  if (auto written = auth::write_key_file(site->key_file_); !written) return fail(written.error());
  return site;
}

uint16_t BenchSite::next_port(uint16_t count) {
  const uint16_t port = next_port_;
  next_port_ = static_cast<uint16_t>(next_port_ + count);
  return port;
}

Result<lab::Process> BenchSite::start_daemon(lab::Node node, const std::string& address) {
  const BenchFlags& flags = plan_.flags;
  const Result<std::string> program = sibling_program("sumcastd");
  if (!program) return fail(program.error());
  std::vector<std::string> argv = {*program, "--listen", address, "--http", "none", "--json-ready"};
  const auto add = [&](const char* flag, const std::string& value) {
    argv.insert(argv.end(), {flag, value});
  };
  if (!flags.daemon_cpus.empty()) {
    argv.insert(argv.begin(), {"taskset", "--cpu-list", flags.daemon_cpus});
  }
  if (flags.insecure) {
    argv.emplace_back("--insecure");
  } else {
    add("--key-file", key_file_);
  }
  if (flags.daemon_threads != 0) add("--threads", std::to_string(flags.daemon_threads));
  if (flags.daemon_slots != 0) add("--slots", std::to_string(flags.daemon_slots));
  if (plan_.faults.active()) {
    add("--loss", fmt::format("{}", plan_.faults.loss));
    add("--dup", fmt::format("{}", plan_.faults.duplicate));
    add("--reorder", fmt::format("{}", plan_.faults.reorder));
    add("--delay", runtime::format_duration(plan_.faults.delay));
    add("--seed", std::to_string(plan_.faults.seed));
  }
  lab::SpawnOptions options;
  options.output = lab::Redirect::pipe();
  Result<lab::Process> process = cluster_.spawn(node, argv, options);
  if (!process) return process;
  if (const Result<std::string> ready = process->read_line(kDaemonPatience); !ready) {
    return fail(ready.error().within("sumcastd did not start"));
  }
  return process;
}

Result<std::string> BenchSite::daemon_address(bool on_server) {
  std::optional<Daemon>& daemon = on_server ? server_ : daemon_;
  if (daemon) return daemon->address;
  const lab::Node node = on_server ? lab::Node::server() : lab::Node::aggregator();
  // Its UDP ports lie above the one for control.
  std::string address = fmt::format("{}:{}", cluster_.address(node), next_port(100));
  Result<lab::Process> process = start_daemon(node, address);
  if (!process) return fail(process.error());
  daemon = Daemon{address, std::move(*process)};
  return address;
}

std::optional<Error> BenchSite::daemon_failure() {
  for (std::optional<Daemon>* daemon : {&daemon_, &server_}) {
    if (!*daemon) continue;
    if (const auto status = (*daemon)->process.poll()) {
      return Error{ErrorCode::kUnavailable, fmt::format("sumcastd at {} ended with {}",
                                                        (*daemon)->address, status->describe())};
    }
  }
  return std::nullopt;
}

}  // namespace sumcast::cli

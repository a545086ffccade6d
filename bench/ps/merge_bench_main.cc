// What summing mergeable pushes on their way is worth: the same ps-lite program with and without
// it, by turns, in network namespaces whose links have a rate, a server's like a worker's.
//
//   sumcast-bench-merge [--workers 8] [--rate 300mbit] [--rounds 30] [--batch 256] [--width 16]
//                       [--kind ctr|flat|text] [--pull] [--heat N]... [-n 3] [--json]
//
// A row per way: time of a round (median), bytes and packets of a round into and out of the
// server's link as its queueing disciplines count them, and what the handler saw. `servers` is
// SUMCAST_PS_MERGE=0, `heat N` SUMCAST_PS_MERGE_HEAT=N.
#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "lab/cluster.h"
#include "lab/privileges.h"

namespace {

using namespace sumcast;
using nlohmann::json;

struct Options {
  int workers = 8, rounds = 30, repeat = 3;
  uint64_t rate_mbit = 300;
  size_t batch = 256, width = 16;
  std::string kind = "ctr", node;
  std::vector<int> heats = {1};
  bool pull = false, as_json = false;
};

[[noreturn]] void stop(const std::string& why) {
  fmt::print(stderr, "sumcast-bench-merge: {}\n", why);
  std::exit(1);
}

/// One run of a way; its figures by name.
std::map<std::string, double> run(lab::Cluster& cluster, const Options& options, int heat,
                                  const std::string& folder) {
  using lab::Node;
  static int port = 9100;
  ++port;
  const std::vector<std::string> command = {options.node,
                                            std::to_string(options.rounds),
                                            std::to_string(options.batch),
                                            std::to_string(options.width),
                                            options.kind,
                                            options.pull ? "1" : "0"};
  std::vector<lab::Process> processes;
  const auto before = cluster.counters(Node::server());
  if (!before) stop(before.error().what);
  const auto add = [&](const std::string& role, Node where, const std::string& file) {
    lab::SpawnOptions spawn;
    // Reading another process's memory would go round the links.
    spawn.env = {"DMLC_ROLE=" + role,
                 "DMLC_PS_ROOT_URI=" + cluster.address(Node::aggregator()),
                 "DMLC_PS_ROOT_PORT=" + std::to_string(port),
                 "DMLC_NODE_HOST=" + cluster.address(where),
                 "DMLC_NUM_SERVER=1",
                 "DMLC_NUM_WORKER=" + std::to_string(options.workers),
                 "SUMCAST_PS_LEND=0",
                 "SUMCAST_PS_MERGE=" + std::string(heat < 0 ? "0" : "1"),
                 "SUMCAST_PS_MERGE_HEAT=" + std::to_string(std::max(heat, 0))};
    spawn.output = lab::Redirect::file(folder + "/" + file);
    auto process = cluster.spawn(where, command, spawn);
    if (!process) stop(process.error().what);
    processes.push_back(std::move(*process));
  };
  add("scheduler", Node::aggregator(), "scheduler");
  add("server", Node::server(), "server");
  for (int i = 0; i < options.workers; ++i) {
    add("worker", Node::of_worker(i), "worker" + std::to_string(i));
  }
  for (auto& process : processes) {
    const auto status = process.wait(120s);
    if (!status || !status->ok()) stop("a node has failed; its errors are above");
  }
  if (auto drained = cluster.drain(10s); !drained) stop(drained.error().what);
  const auto after = cluster.counters(Node::server());
  if (!after) stop(after.error().what);
  const double rounds = options.rounds + options.rounds / 10 + 1;
  std::map<std::string, double> figures = {
      {"server_bytes_in", static_cast<double>(after->down.bytes - before->down.bytes) / rounds},
      {"server_bytes_out", static_cast<double>(after->up.bytes - before->up.bytes) / rounds},
      {"server_packets_in",
       static_cast<double>(after->down.packets - before->down.packets) / rounds}};
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream lines(entry.path());
    for (std::string line; std::getline(lines, line);) {
      const json values = json::parse(line, nullptr, false);
      if (!values.is_object()) continue;
      for (const auto& [name, value] : values.items()) figures[name] = value.get<double>();
    }
  }
  return figures;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  std::string rate = "300mbit";
  CLI::App app("Mergeable pushes: summed on their way, or not");
  app.add_option("--workers", options.workers)->check(CLI::Range(2, 64));
  app.add_option("--rate", rate, "of each link, in mbit")
      ->check(CLI::Validator(
          [](std::string& text) {
            return text.find_first_not_of("0123456789") == text.size() - 4 &&
                           text.compare(text.size() - 4, 4, "mbit") == 0
                       ? std::string()
                       : "must be a whole number followed by mbit";
          },
          "Nmbit"));
  app.add_option("--rounds", options.rounds)->check(CLI::Range(1, 100000));
  app.add_option("--batch", options.batch)->check(CLI::Range(1, 1000000));
  app.add_option("--width", options.width)->check(CLI::Range(1, 65536));
  app.add_option("--kind", options.kind)->check(CLI::IsMember({"ctr", "flat", "text"}));
  app.add_option("--heat", options.heats)->check(CLI::Range(0, 100));
  app.add_option("-n,--repeat", options.repeat)->check(CLI::Range(1, 100));
  app.add_flag("--pull", options.pull, "each round pulls its keys first");
  app.add_flag("--json", options.as_json);
  CLI11_PARSE(app, argc, argv);
  options.rate_mbit = std::stoull(rate);
  options.node = std::filesystem::read_symlink("/proc/self/exe").string() + "-node";

  if (auto entered = lab::enter_user_namespace_if_needed(); !entered) stop(entered.error().what);
  lab::ClusterOptions wanted;
  wanted.workers = options.workers;
  wanted.rate_bits_per_second = options.rate_mbit * 1'000'000;
  wanted.with_server = true;
  auto cluster = lab::Cluster::build(wanted);
  if (!cluster) stop(cluster.error().what);
  std::string folder = std::filesystem::temp_directory_path() / "sumcast_merge_XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) stop("cannot make a folder for results");

  std::vector<int> ways = {-1};
  ways.insert(ways.end(), options.heats.begin(), options.heats.end());
  std::map<int, std::map<std::string, std::vector<double>>> all;
  for (int i = 0; i < options.repeat; ++i) {
    for (const int way : ways) {
      for (const auto& [name, value] : run(*cluster, options, way, folder)) {
        all[way][name].push_back(value);
      }
    }
  }
  std::filesystem::remove_all(folder);
  if (!options.as_json) {
    fmt::print("{:10} {:>10} {:>6} {:>12} {:>12} {:>10} {:>8} {:>8}\n", "", "round ms", "",
               "bytes in", "bytes out", "packets in", "pushes", "keys");
  }
  const double servers = median(all[-1]["round_us"]);
  for (const int way : ways) {
    const std::string name = way < 0 ? "servers" : fmt::format("heat {}", way);
    std::map<std::string, double> figures;
    for (const auto& [figure, values] : all[way]) figures[figure] = median(values);
    if (options.as_json) {
      json row(figures);
      row["path"] = name;
      fmt::print("{}\n", row.dump());
      continue;
    }
    fmt::print("{:10} {:10.1f} {:5.2f}x {:12.0f} {:12.0f} {:10.0f} {:8.1f} {:8.0f}\n", name,
               figures["round_us"] / 1e3, servers / figures["round_us"], figures["server_bytes_in"],
               figures["server_bytes_out"], figures["server_packets_in"], figures["pushes"],
               figures["keys"]);
  }
  return 0;
}

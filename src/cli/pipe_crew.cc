#include "cli/pipe_crew.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/bench_site.h"
#include "lab/interrupt.h"

namespace sumcast::cli {
namespace {

/// Namespaces are ours alone; on loopback, where only kNone is used, it is below the ephemeral
/// ports.
constexpr uint16_t kPort = 21'650;
constexpr Duration kStartPatience = 60s;

Result<lab::Process> start_daemon(const lab::Cluster& cluster, lab::Node node,
                                  const std::string& address, const std::string& key_file) {
  const Result<std::string> program = sibling_program("sumcastd");
  if (!program) return fail(program.error());
  lab::SpawnOptions spawning;
  spawning.output = lab::Redirect::pipe();
  Result<lab::Process> process = cluster.spawn(
      node,
      {*program, "--listen", address, "--http", "none", "--json-ready", "--key-file", key_file},
      spawning);
  if (!process) return process;
  if (const auto ready = process->read_line(20s); !ready) {
    return fail(ready.error().within("sumcastd did not start"));
  }
  return process;
}

}  // namespace

Result<std::unique_ptr<PipeCrew>> PipeCrew::start(const lab::Cluster& cluster, PipeSite site,
                                                  const std::string& model,
                                                  const std::string& key_file) {
  std::unique_ptr<PipeCrew> crew(new PipeCrew);
  PipeWorkerPlan plan;
  plan.model = model;
  plan.job = fmt::format("bench pipeline {}", model);
  plan.key_file = key_file;
  plan.world = static_cast<uint32_t>(cluster.options().workers);
  plan.server = site == PipeSite::kServer;
  if (site == PipeSite::kNone) {
    plan.coordinator = fmt::format("{}:{}", cluster.address(lab::Node::of_worker(0)), kPort);
  } else {
    const lab::Node node =
        site == PipeSite::kServer ? lab::Node::server() : lab::Node::aggregator();
    plan.aggregator = fmt::format("{}:{}", cluster.address(node), kPort);
    Result<lab::Process> daemon = start_daemon(cluster, node, plan.aggregator, key_file);
    if (!daemon) return fail(daemon.error());
    crew->daemon_ = std::move(*daemon);
  }
  lab::SpawnOptions spawning;
  spawning.input = lab::Redirect::pipe();
  spawning.output = lab::Redirect::pipe();
  for (plan.rank = 0; plan.rank < plan.world; ++plan.rank) {
    Result<lab::Process> worker = cluster.spawn(lab::Node::of_worker(static_cast<int>(plan.rank)),
                                                {program_path(), "pipe-worker"}, spawning);
    if (!worker) return fail(worker.error());
    crew->workers_.push_back(std::move(*worker));
    if (auto told = crew->workers_.back().write_input(encode(plan) + "\n"); !told) {
      return fail(told.error());
    }
  }
  for (size_t rank = 0; rank < crew->workers_.size(); ++rank) {
    const Result<PipeAnswer> hello = crew->answer_of(rank, kStartPatience);
    if (!hello) return fail(hello.error());
  }
  return crew;
}

Result<PipeAnswer> PipeCrew::answer_of(size_t rank, Duration patience) {
  const auto blame = [&](const Error& error) {
    if (lab::ScopedInterrupt::requested()) return fail(ErrorCode::kAborted, "interrupted");
    return fail(error.within(fmt::format("worker {}", rank)));
  };
  const Result<std::string> line = workers_[rank].read_line(patience);
  if (!line) return blame(line.error());
  Result<PipeAnswer> answer = decode_pipe_answer(*line);
  if (!answer) return blame(answer.error());
  if (!answer->error.empty()) return blame({ErrorCode::kAborted, answer->error});
  return answer;
}

Result<std::vector<PipeAnswer>> PipeCrew::perform(const PipeTask& task, Duration patience) {
  if (lab::ScopedInterrupt::requested()) return fail(ErrorCode::kAborted, "interrupted");
  for (lab::Process& worker : workers_) {
    // One that cannot be written to has died; its missing answer says so in better words.
    static_cast<void>(worker.write_input(encode(task) + "\n"));
  }
  std::vector<PipeAnswer> answers;
  for (size_t rank = 0; rank < workers_.size(); ++rank) {
    Result<PipeAnswer> answer = answer_of(rank, patience);
    if (!answer) return fail(answer.error());
    answers.push_back(std::move(*answer));
  }
  return answers;
}

PipeAnswer joined(const std::vector<PipeAnswer>& answers) {
  PipeAnswer all = answers.front();
  all.step_s = all.deviation = all.idle_share = 0;
  for (plan::LayerShape& layer : all.layers) layer.forward_s = layer.backward_s = 0;
  const auto count = static_cast<double>(answers.size());
  for (const PipeAnswer& one : answers) {
    all.step_s += one.step_s / count;
    all.deviation += one.deviation / count;
    all.idle_share += one.idle_share / count;
    for (size_t i = 0; i < std::min(all.layers.size(), one.layers.size()); ++i) {
      all.layers[i].forward_s += one.layers[i].forward_s / count;
      all.layers[i].backward_s += one.layers[i].backward_s / count;
    }
  }
  return all;
}

}  // namespace sumcast::cli

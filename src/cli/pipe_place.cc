#include "cli/pipe_place.h"

#include <fmt/format.h>

#include <algorithm>

namespace sumcast::cli {
namespace {

using plan::Collective;
using plan::Mode;
using plan::Schedule;

constexpr uint32_t kStepsMax = 60;
/// Workers of an asynchronous server begin as one, and drift apart.
constexpr uint32_t kAsyncWarmSteps = 8;
/// Until as many sums are under way as the width allows, a step takes no longer than computing: so
/// many steps for each, where computing takes up to two thirds of a sum.
constexpr uint32_t kFillingSteps = 3;
constexpr Duration kPatience = 180s;

PipeSite site_of(const Mode& mode) {
  if (mode.schedule == Schedule::kAsync) return PipeSite::kAsync;
  return mode.collective == Collective::kServer ? PipeSite::kServer : PipeSite::kAggregator;
}

/// On the busiest link, in its busier direction.
double most_bytes(const std::vector<lab::LinkCounters>& before,
                  const std::vector<lab::LinkCounters>& after) {
  uint64_t most = 0;
  for (size_t i = 0; i < std::min(before.size(), after.size()); ++i) {
    most = std::max(
        {most, after[i].up.bytes - before[i].up.bytes, after[i].down.bytes - before[i].down.bytes});
  }
  return static_cast<double>(most);
}

}  // namespace

Result<std::unique_ptr<PipePlace>> PipePlace::open(const PipeSetting& setting,
                                                   const PipeEffort& effort,
                                                   const std::string& key_file) {
  std::unique_ptr<PipePlace> place(new PipePlace(setting, effort, key_file));
  lab::ClusterOptions wanted;
  wanted.workers = static_cast<int>(setting.workers);
  wanted.rate_bits_per_second = setting.rate_bps;
  wanted.with_server = true;
  Result<lab::Cluster> cluster = lab::Cluster::build(wanted);
  if (!cluster) return fail(cluster.error());
  place->cluster_ = std::make_unique<lab::Cluster>(std::move(*cluster));
  return place;
}

Result<PipeCrew*> PipePlace::crew(PipeSite site) {
  // Others' processes, idle as they are, would disturb what is measured.
  std::erase_if(crews_, [&](const auto& other) { return other.first != site; });
  std::unique_ptr<PipeCrew>& found = crews_[site];
  if (!found) {
    auto started = PipeCrew::start(*cluster_, site, setting_.model, key_file_, setting_.delay);
    if (!started) return fail(started.error());
    found = std::move(*started);
  }
  return found.get();
}

Result<void> PipePlace::probe(PipeSite site, std::vector<std::pair<Collective, WireFormat>> pairs,
                              plan::Calibration& network) {
  const Result<PipeCrew*> crew = this->crew(site);
  if (!crew) return fail(crew.error());
  PipeTask task;
  task.kind = PipeTask::Kind::kProbe;
  task.warm = effort_.probe_alone_steps;
  task.steps = static_cast<uint32_t>(effort_.probe_repeats);
  task.pairs = std::move(pairs);
  const auto answers = (*crew)->perform(task, kPatience);
  if (!answers) return fail(answers.error());
  for (const auto& [mode, line] : answers->front().lines) {
    network.measured[{mode.collective, mode.wire}] = line;
  }
  network.network_jitter = answers->front().network_deviation;
  network.straggling_s = answers->front().straggling_s;
  return {};
}

Result<void> PipePlace::calibrate(plan::Calibration& network, PipeComputing& computing) {
  const bool delayed = setting_.delay > Duration{0};
  std::vector<std::pair<Collective, WireFormat>> pairs = {
      {Collective::kInNetwork, WireFormat::kNative}, {Collective::kInNetwork, WireFormat::kBF16}};
  if (!delayed) {
    pairs.emplace_back(Collective::kInNetwork, WireFormat::kInt8);
    pairs.emplace_back(Collective::kRing, WireFormat::kNative);
    const auto gathered = std::pair(Collective::kGather, WireFormat::kNative);
    if (effort_.scope == PipeScope::kAll) pairs.push_back(gathered);
    const auto server = std::pair(Collective::kServer, WireFormat::kNative);
    if (effort_.scope != PipeScope::kDecisions) {
      if (auto done = probe(PipeSite::kServer, {server}, network); !done) return done;
    }
  }
  if (auto done = probe(PipeSite::kAggregator, std::move(pairs), network); !done) return done;
  for (const Mode& kind : computing_kinds(pipe_modes(effort_.scope, delayed))) {
    PipeTask task;
    task.kind = PipeTask::Kind::kAlone;
    task.steps = effort_.alone_steps;
    task.warm = 1;
    task.mode = kind;
    const auto answers = (*crew(PipeSite::kAggregator))->perform(task, kPatience);
    if (!answers) return fail(answers.error());
    computing.add(kind, joined(*answers));
  }
  return {};
}

Result<void> PipePlace::measure(PipeRow& row) {
  const Result<PipeCrew*> crew = this->crew(site_of(row.mode));
  if (!crew) return fail(crew.error());
  PipeTask task;
  task.mode = row.mode;
  task.warm = row.mode.schedule == Schedule::kAsync
                  ? kAsyncWarmSteps
                  : std::max(effort_.warm_steps, kFillingSteps * (row.mode.width - 1) + 2);
  task.steps =
      static_cast<uint32_t>(std::clamp(effort_.cell_seconds / row.predicted.step_s,
                                       static_cast<double>(effort_.steps_min), double{kStepsMax}));
  task.order = row.order;
  if (auto drained = cluster_->drain(5s); !drained) return drained;
  const auto before = cluster_->all_counters();
  if (!before) return fail(before.error());
  const auto answers = (*crew)->perform(task, kPatience);
  if (!answers) return fail(answers.error());
  const auto after = cluster_->all_counters();
  if (!after) return fail(after.error());
  const PipeAnswer all = joined(*answers);
  row.step_s = all.step_s;
  row.idle_share = all.idle_share;
  row.spans = all.spans;
  row.link_bytes = most_bytes(*before, *after) / (task.warm + task.steps);
  row.link_idle_share = std::clamp(
      1 - row.link_bytes * 8 / (static_cast<double>(setting_.rate_bps) * row.step_s), 0.0, 1.0);
  return {};
}

Result<double> computing_alone(const std::string& model, uint32_t workers, uint32_t steps,
                               const std::string& key_file) {
  lab::ClusterOptions wanted;
  wanted.workers = static_cast<int>(workers);
  Result<lab::Cluster> cluster = lab::Cluster::on_loopback(wanted);
  if (!cluster) return fail(cluster.error());
  auto crew = PipeCrew::start(*cluster, PipeSite::kNone, model, key_file);
  if (!crew) return fail(crew.error());
  PipeTask task;
  task.kind = PipeTask::Kind::kAlone;
  task.steps = steps;
  const auto answers = (*crew)->perform(task, kPatience);
  if (!answers) return fail(answers.error());
  return joined(*answers).step_s;
}

}  // namespace sumcast::cli

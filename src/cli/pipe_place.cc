#include "cli/pipe_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "plan/fit.h"
#include "runtime/clock.h"

namespace sumcast::cli {
namespace {

using plan::Collective;
using plan::Mode;
using plan::Schedule;

/// Of a look at how fast the machine is, and of a cell.
constexpr uint32_t kLookStepsMax = 60, kCellStepsMax = 200;
/// Whose synchronous steps tell how long workers wait for one another.
constexpr std::pair kUsualPair(Collective::kInNetwork, WireFormat::kNative);
/// Workers of an asynchronous server begin as one, and drift apart.
constexpr uint32_t kAsyncWarmSteps = 8;
/// Until as many sums are under way as the width allows, a step takes no longer than computing: so
/// many steps for each, where computing takes up to two thirds of a sum.
constexpr uint32_t kFillingSteps = 3;
constexpr Duration kPatience = 180s;
/// A look at how fast the machine is.
constexpr double kLookSeconds = 0.15;
/// As many, one after the other, tell how fast it is when nobody disturbs it.
constexpr int kReferenceLooks = 16;

PipeSite site_of(const Mode& mode) {
  if (mode.schedule == Schedule::kAsync) return PipeSite::kAsync;
  return mode.collective == Collective::kServer ? PipeSite::kServer : PipeSite::kAggregator;
}

/// Steps of computing without sums; they take about kLookSeconds.
PipeTask look_task(double compute_s) {
  PipeTask task;
  task.kind = PipeTask::Kind::kAlone;
  task.warm = 0;
  task.steps =
      static_cast<uint32_t>(std::clamp(kLookSeconds / compute_s, 1.0, double{kLookStepsMax}));
  return task;
}

/// Has the workers compute alone. Seconds of a step.
Result<double> compute_alone(PipeCrew& crew, const PipeTask& task) {
  const auto answers = crew.perform(task, kPatience);
  if (!answers) return fail(answers.error());
  return joined(*answers).step_s;
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

template <typename Field>
double median_over(const std::vector<PipeAnswer>& answers, const Field& field) {
  std::vector<double> values;
  for (const PipeAnswer& answer : answers) values.push_back(field(answer));
  return plan::spread_of(std::move(values)).median;
}

/// Field by field: passes are few, and what disturbs one seldom disturbs all of it.
plan::MeasuredCost median_line(const std::vector<PipeAnswer>& answers) {
  plan::MeasuredCost line;
  for (const auto field : {&plan::MeasuredCost::fixed_s, &plan::MeasuredCost::per_byte_s,
                           &plan::MeasuredCost::stolen_per_byte_s, &plan::MeasuredCost::drag,
                           &plan::MeasuredCost::busy_per_byte_s, &plan::MeasuredCost::late_s}) {
    line.*field =
        median_over(answers, [&](const PipeAnswer& a) { return a.lines.front().second.*field; });
  }
  return line;
}

}  // namespace

PipePlace::PipePlace(const PipeSetting& setting, const PipeEffort& effort, std::string key_file)
    : setting_(setting),
      effort_(effort),
      key_file_(std::move(key_file)),
      watch_(setting.compute_s, runtime::monotonic_now) {}

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

Result<PipePlace::Performed> PipePlace::perform(PipeCrew& crew, const PipeTask& task) {
  if (auto drained = cluster_->drain(5s); !drained) return fail(drained.error());
  const auto before = cluster_->all_counters();
  if (!before) return fail(before.error());
  auto answers = crew.perform(task, kPatience);
  if (!answers) return fail(answers.error());
  const auto after = cluster_->all_counters();
  if (!after) return fail(after.error());
  return Performed{std::move(*answers), most_bytes(*before, *after)};
}

Result<std::pair<PipePlace::Performed, double>> PipePlace::perform_steadily(PipeSite site,
                                                                            const PipeTask& task) {
  const Result<PipeCrew*> crew = this->crew(site);
  if (!crew) return fail(crew.error());
  return watch_.steadily<Performed>(
      [&] { return compute_alone(**crew, look_task(watch_.reference_s())); },
      [&] { return perform(**crew, task); });
}

Result<PipeAnswer> PipePlace::probe(PipeSite site, std::pair<Collective, WireFormat> pair) {
  PipeTask task;
  task.kind = PipeTask::Kind::kProbe;
  task.warm = effort_.probe_alone_steps;
  task.steps = static_cast<uint32_t>(effort_.probe_repeats);
  task.pairs = {pair};
  task.straggling = pair == kUsualPair;
  auto done = perform_steadily(site, task);
  if (!done) return fail(done.error());
  return std::move(done->first.answers.front());
}

Result<void> PipePlace::calibrate(plan::Calibration& network, PipeComputing& computing) {
  const bool delayed = setting_.delay > Duration{0};
  std::vector<std::pair<Collective, WireFormat>> pairs = {
      kUsualPair, {Collective::kInNetwork, WireFormat::kBF16}};
  if (!delayed) {
    pairs.emplace_back(Collective::kInNetwork, WireFormat::kInt8);
    pairs.emplace_back(Collective::kRing, WireFormat::kNative);
    if (effort_.scope == PipeScope::kAll) {
      pairs.emplace_back(Collective::kGather, WireFormat::kNative);
    }
  }
  std::map<std::pair<Collective, WireFormat>, std::vector<PipeAnswer>> probed;
  const auto probe_all = [&](PipeSite site, const auto& those) -> Result<void> {
    for (int pass = 0; pass < effort_.probe_passes; ++pass) {
      for (const auto& pair : those) {
        auto answer = probe(site, pair);
        if (!answer) return fail(answer.error());
        probed[pair].push_back(std::move(*answer));
      }
    }
    return {};
  };
  if (!delayed && effort_.scope != PipeScope::kDecisions) {
    const std::array server = {std::pair(Collective::kServer, WireFormat::kNative)};
    if (auto done = probe_all(PipeSite::kServer, server); !done) return done;
  }
  if (auto done = probe_all(PipeSite::kAggregator, pairs); !done) return done;
  for (const auto& [pair, answers] : probed) network.measured[pair] = median_line(answers);
  const std::vector<PipeAnswer>& usual = probed.at(kUsualPair);
  network.straggling_s = median_over(usual, [](const PipeAnswer& a) { return a.straggling_s; });
  network.network_jitter =
      median_over(usual, [](const PipeAnswer& a) { return a.network_deviation; });
  for (const Mode& kind : computing_kinds(modes())) {
    PipeTask task;
    task.kind = PipeTask::Kind::kAlone;
    task.steps = effort_.alone_steps;
    task.warm = 1;
    task.mode = kind;
    const auto done = perform_steadily(PipeSite::kAggregator, task);
    if (!done) return fail(done.error());
    computing.add(kind, joined(done->first.answers));
  }
  return {};
}

Result<void> PipePlace::measure(PipeRow& row, double seconds) {
  PipeTask task;
  task.mode = row.mode;
  task.warm = row.mode.schedule == Schedule::kAsync
                  ? kAsyncWarmSteps
                  : std::max(effort_.warm_steps, kFillingSteps * (row.mode.width - 1) + 2);
  task.steps = static_cast<uint32_t>(std::clamp(seconds / row.predicted.step_s,
                                                static_cast<double>(effort_.steps_min),
                                                double{kCellStepsMax}));
  task.order = row.order;
  const auto done = perform_steadily(site_of(row.mode), task);
  if (!done) return fail(done.error());
  const PipeAnswer all = joined(done->first.answers);
  row.step_s = all.step_s;
  row.idle_share = all.idle_share;
  row.spans = all.spans;
  row.drift = done->second;
  row.link_bytes = done->first.link_bytes / (task.warm + task.steps);
  row.link_idle_share = std::clamp(
      1 - row.link_bytes * 8 / (static_cast<double>(setting_.rate_bps) * row.step_s), 0.0, 1.0);
  return {};
}

Result<double> computing_alone(const std::string& model, uint32_t workers,
                               const std::string& key_file) {
  lab::ClusterOptions wanted;
  wanted.workers = static_cast<int>(workers);
  Result<lab::Cluster> cluster = lab::Cluster::on_loopback(wanted);
  if (!cluster) return fail(cluster.error());
  auto crew = PipeCrew::start(*cluster, PipeSite::kNone, model, key_file);
  if (!crew) return fail(crew.error());
  PipeTask task;
  task.kind = PipeTask::Kind::kAlone;
  task.steps = 1;
  const Result<double> about_s = compute_alone(**crew, task);
  if (!about_s) return about_s;
  std::vector<double> times;
  for (int i = 0; i < kReferenceLooks; ++i) {
    const Result<double> step_s = compute_alone(**crew, look_task(*about_s));
    if (!step_s) return step_s;
    times.push_back(*step_s);
  }
  return SpeedWatch::undisturbed(std::move(times));
}

}  // namespace sumcast::cli

// A contender that is another library's program, at its best algorithm.
//
// Which algorithm is best depends on size, cluster and library, so every one is tried first: a few
// iterations at each size, checked, and the best median wins that size. The measured runs are not
// checked, since filling and comparing would count as the peer's processor time; `wrong` is the
// trial's. Jobs live side by side, one per algorithm and block length, and are stopped between
// turns if their ranks would spin.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "cli/bench_contender.h"
#include "cli/bench_statistics.h"
#include "cli/peer_job.h"

namespace sumcast::cli {
namespace {

constexpr uint32_t kTrialIterations = 3;
constexpr uint32_t kTrialIterationsSmall = 20;

class PeerContender final : public Contender {
 public:
  PeerContender(const ContenderSpec& spec, BenchSite& site)
      : Contender(spec), site_(site), plan_(site.plan()) {}

  bool has_half(const BenchCase&, Half half) const override { return half == Half::kInPlace; }
  std::string note(const BenchCase& bench) const override;

  Result<void> start() override;
  Result<void> begin(size_t case_index) override;
  Result<void> turn(Half half, Meter& meter, Tally& tally) override;
  Result<void> end(Tally& tally) override;

 private:
  struct Choice {
    std::string algorithm;
    double time_us = 0;
    uint64_t wrong = 0;
    bool tried = false;
  };
  /// What tells jobs apart.
  struct JobKey {
    std::string algorithm;
    uint32_t operations;
    auto operator<=>(const JobKey&) const = default;
  };
  struct RunningJob {
    PeerJob job;
    size_t sizes_left;
  };

  Duration patience() const { return plan_.timeout * kBlockOperations + 60s; }
  uint32_t warmup() const { return std::max(plan_.flags.warmup, 1u); }
  JobKey key_of(size_t case_index) const {
    return {choices_[case_index].algorithm, plan_.cases[case_index].operations};
  }
  PeerRun run_of(const std::vector<size_t>& cases, const std::string& algorithm) const;
  Result<void> try_algorithm(const std::string& algorithm);
  Result<void> start_job(const JobKey& key);
  RunningJob& current() { return jobs_.at(key_of(case_index_)); }

  BenchSite& site_;
  const BenchPlan& plan_;
  std::vector<Choice> choices_;  ///< By case.
  std::map<JobKey, RunningJob> jobs_;
  size_t case_index_ = 0;
};

PeerRun PeerContender::run_of(const std::vector<size_t>& cases,
                              const std::string& algorithm) const {
  PeerRun run;
  run.peer = spec().peer;
  run.algorithm = algorithm;
  run.collective = plan_.collective;
  for (const size_t i : cases) {
    run.sizes.push_back(std::max<uint64_t>(plan_.cases[i].bytes, 4));
  }
  return run;
}

Result<void> PeerContender::try_algorithm(const std::string& algorithm) {
  std::map<uint32_t, std::vector<size_t>> by_block;
  for (size_t i = 0; i < plan_.cases.size(); ++i) {
    by_block[plan_.cases[i].operations].push_back(i);
  }
  for (const auto& [operations, cases] : by_block) {
    PeerRun run = run_of(cases, algorithm);
    run.iterations = operations > 1 ? kTrialIterationsSmall : kTrialIterations;
    run.check = true;
    Result<PeerJob> job = PeerJob::start(site_, run);
    if (!job) return fail(job.error());
    const Result<std::vector<PeerResult>> results = job->finish(patience());
    if (!results) return fail(results.error());
    for (size_t i = 0; i < cases.size(); ++i) {
      const double time_us = median((*results)[i].times_us);
      Choice& choice = choices_[cases[i]];
      if (choice.tried && choice.time_us <= time_us) continue;
      choice = {algorithm, time_us, (*results)[i].wrong, true};
    }
  }
  return {};
}

Result<void> PeerContender::start() {
  choices_.resize(plan_.cases.size());
  const std::vector<std::string> algorithms = spec().peer_algorithm.empty()
                                                  ? peer_algorithms(spec().peer, plan_.collective)
                                                  : std::vector{spec().peer_algorithm};
  std::optional<Error> last;
  for (const std::string& algorithm : algorithms) {
    // Some algorithms want a power of two of ranks or the like: those are not the best then.
    if (Result<void> tried = try_algorithm(algorithm); !tried) last = tried.error();
  }
  const bool all_tried = std::all_of(choices_.begin(), choices_.end(),
                                     [](const Choice& choice) { return choice.tried; });
  if (!all_tried) return fail(last->within(fmt::format("peer {}", spec().name)));
  return {};
}

Result<void> PeerContender::start_job(const JobKey& key) {
  std::vector<size_t> cases;
  for (size_t i = 0; i < plan_.cases.size(); ++i) {
    if (key_of(i) == key) cases.push_back(i);
  }
  PeerRun run = run_of(cases, key.algorithm);
  run.iterations = plan_.flags.iterations;
  run.warmup = warmup();
  run.operations = key.operations;
  run.step = true;
  Result<PeerJob> job = PeerJob::start(site_, run);
  if (!job) return fail(job.error());
  if (Result<void> ready = job->await_ready(patience()); !ready) return ready;
  job->pause();
  jobs_.emplace(key, RunningJob{std::move(*job), cases.size()});
  return {};
}

Result<void> PeerContender::begin(size_t case_index) {
  case_index_ = case_index;
  const JobKey key = key_of(case_index);
  if (!jobs_.contains(key)) {
    if (Result<void> started = start_job(key); !started) return started;
  }
  PeerJob& job = current().job;
  job.resume();
  for (uint32_t i = 1; i < warmup(); ++i) {  // The first one ran unasked.
    if (Result<void> done = job.step(patience()); !done) return done;
  }
  job.pause();
  return {};
}

Result<void> PeerContender::turn(Half, Meter& meter, Tally& tally) {
  PeerJob& job = current().job;
  if (Result<void> started = meter.start(); !started) return started;
  job.resume();
  Result<void> done = job.step(patience());
  job.pause();
  if (!done) return done;
  return meter.stop(plan_.cases[case_index_].operations, tally);
}

Result<void> PeerContender::end(Tally& tally) {
  RunningJob& running = current();
  running.job.resume();
  const bool is_last = --running.sizes_left == 0;
  const Result<PeerResult> result = running.job.end_size(is_last, patience());
  if (!result) return fail(result.error());
  running.job.pause();
  const auto half = static_cast<size_t>(Half::kInPlace);
  tally.times_us[half] = result->times_us;
  tally.wrong[half] = choices_[case_index_].wrong;
  tally.checked = plan_.collective != Collective::kBarrier;
  if (is_last) jobs_.erase(key_of(case_index_));
  return {};
}

std::string PeerContender::note(const BenchCase& bench) const {
  const auto found = std::find(plan_.cases.begin(), plan_.cases.end(), bench);
  const auto index = static_cast<size_t>(found - plan_.cases.begin());
  if (index >= choices_.size() || !spec().peer_algorithm.empty()) return {};
  return fmt::format("{} at {} B: {}", spec().name, bench.bytes, choices_[index].algorithm);
}

}  // namespace

std::unique_ptr<Contender> make_peer_contender(const ContenderSpec& spec, BenchSite& site) {
  return std::make_unique<PeerContender>(spec, site);
}

}  // namespace sumcast::cli

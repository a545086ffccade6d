#include "cli/bench_driver.h"

#include "lab/interrupt.h"

namespace sumcast::cli {
namespace {

Result<void> check_interrupt() {
  if (!lab::ScopedInterrupt::requested()) return {};
  return fail(ErrorCode::kAborted, "interrupted");
}

/// One block in each half that the contender has.
Result<void> take_turns(Contender& contender, const BenchCase& bench, Meter& meter, Tally& tally) {
  for (const Half half : {Half::kOutOfPlace, Half::kInPlace}) {
    if (!contender.has_half(bench, half)) continue;
    if (Result<void> going_on = check_interrupt(); !going_on) return going_on;
    if (Result<void> done = contender.turn(half, meter, tally); !done) return done;
  }
  return {};
}

bool is_peer(const Contender& contender) {
  return contender.spec().kind == ContenderSpec::Kind::kPeer;  // They warm up by themselves.
}

Result<void> measure_case(BenchSite& site, std::vector<std::unique_ptr<Contender>>& contenders,
                          size_t case_index, const RowSink& on_row, const RoundObserver& on_round) {
  const BenchPlan& plan = site.plan();
  const BenchCase& bench = plan.cases[case_index];
  Meter meter(site.cluster());
  for (const auto& contender : contenders) {
    if (Result<void> begun = contender->begin(case_index); !begun) return begun;
    Tally unused;
    for (uint32_t i = 0; i < plan.flags.warmup && !is_peer(*contender); ++i) {
      if (Result<void> done = take_turns(*contender, bench, meter, unused); !done) return done;
    }
  }
  std::vector<Tally> tallies(contenders.size());
  const uint32_t rounds = plan.flags.iterations;
  for (uint32_t round = 0; round < rounds; ++round) {
    on_round(bench, round, rounds);
    for (size_t i = 0; i < contenders.size(); ++i) {
      Result<void> done = take_turns(*contenders[i], bench, meter, tallies[i]);
      if (!done) return done;
    }
  }
  on_round(bench, rounds, rounds);
  for (size_t i = 0; i < contenders.size(); ++i) {
    if (Result<void> ended = contenders[i]->end(tallies[i]); !ended) return ended;
    on_row(*contenders[i], bench, tallies[i]);
  }
  return {};
}

}  // namespace

Result<std::vector<std::unique_ptr<Contender>>> start_contenders(BenchSite& site) {
  std::vector<std::unique_ptr<Contender>> contenders;
  // Peers first: their trials should meet a machine without our processes.
  for (const ContenderSpec& spec : site.plan().contenders) {
    contenders.push_back(spec.kind == ContenderSpec::Kind::kPeer
                             ? make_peer_contender(spec, site)
                             : make_ranked_contender(spec, site));
  }
  for (const bool peers : {true, false}) {
    for (const auto& contender : contenders) {
      if (is_peer(*contender) != peers) continue;
      if (Result<void> started = contender->start(); !started) return fail(started.error());
      if (Result<void> going_on = check_interrupt(); !going_on) return fail(going_on.error());
    }
  }
  site.forget_key_file();
  return contenders;
}

Result<void> measure_all(BenchSite& site, std::vector<std::unique_ptr<Contender>>& contenders,
                         const RowSink& on_row, const RoundObserver& on_round) {
  for (size_t i = 0; i < site.plan().cases.size(); ++i) {
    if (Result<void> done = measure_case(site, contenders, i, on_row, on_round); !done) {
      return lab::ScopedInterrupt::requested() ? check_interrupt() : done;
    }
  }
  return {};
}

}  // namespace sumcast::cli

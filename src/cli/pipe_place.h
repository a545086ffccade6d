// Links of one rate, and the crews that join over them when they are first asked for.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "cli/pipe_crew.h"
#include "cli/pipe_forecast.h"
#include "cli/pipe_row.h"
#include "cli/speed_watch.h"

namespace sumcast::cli {

/// What all cells of one set of links have in common.
struct PipeSetting {
  std::string model;
  uint32_t workers = 4;
  double ratio = 0;
  Duration delay{0};
  uint64_t rate_bps = 0;
  double compute_s = 0;  ///< A step of computing, undisturbed: what is measured slower is again.
};

/// How long to measure.
struct PipeEffort {
  PipeScope scope = PipeScope::kAll;  ///< Which modes, and so which kinds of computing.
  uint32_t alone_steps = 8;           ///< Of each kind of computing, at every place.
  uint32_t probe_alone_steps = 3;     ///< Before and after each probe of computing beside sums.
  int probe_repeats = 7;
  int probe_passes = 3;  ///< Over all lines of a place; odd, as medians are taken.
  size_t passes = 3;     ///< Over all cells of a place; odd, as medians are taken.
  uint32_t warm_steps = 3;
  uint32_t steps_min = 5;
  double cell_seconds = 1.5;  ///< In each pass, warming up excluded.
  /// Further passes over those that may be the fastest, so long; odd, and none unless choices of a
  /// mode are what is measured.
  size_t contest_passes = 0;
  double contest_seconds = 2;
};

/// One thread. All processes end with it; those of one crew run at a time.
class PipePlace {
 public:
  static Result<std::unique_ptr<PipePlace>> open(const PipeSetting& setting,
                                                 const PipeEffort& effort,
                                                 const std::string& key_file);
  /// Measures lines of the links into `network`, and computing without sums into `computing`, which
  /// collects what all places have measured.
  Result<void> calibrate(plan::Calibration& network, PipeComputing& computing);
  /// Trains in the row's mode for so long, and fills in what was measured.
  Result<void> measure(PipeRow& row, double seconds);

 private:
  /// What the workers said of a task, and what the busiest link carried meanwhile.
  struct Performed {
    std::vector<PipeAnswer> answers;
    double link_bytes = 0;
  };
  PipePlace(const PipeSetting& setting, const PipeEffort& effort, std::string key_file);
  /// That are measured here.
  std::vector<plan::Mode> modes() const {
    return pipe_modes(effort_.scope, setting_.delay > Duration{0});
  }
  Result<PipeCrew*> crew(PipeSite site);
  Result<Performed> perform(PipeCrew& crew, const PipeTask& task);
  /// As SpeedWatch::steadily.
  Result<std::pair<Performed, double>> perform_steadily(PipeSite site, const PipeTask& task);
  /// Measures a pair's line once.
  Result<PipeAnswer> probe(PipeSite site, std::pair<plan::Collective, WireFormat> pair);

  PipeSetting setting_;
  PipeEffort effort_;
  std::string key_file_;
  SpeedWatch watch_;
  std::unique_ptr<lab::Cluster> cluster_;
  std::map<PipeSite, std::unique_ptr<PipeCrew>> crews_;
};

/// Seconds of a synchronous step's computing, all workers computing, without any links, while the
/// machine is not disturbed.
Result<double> computing_alone(const std::string& model, uint32_t workers,
                               const std::string& key_file);

}  // namespace sumcast::cli

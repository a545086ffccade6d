// `sumcast train --compare`: the same training with all keys on servers and with hot keys on the
// aggregator, each member in a network namespace of its own, until both have the same loss on
// held-out data.
//
// Every member is this program as `sumcast train`, told its rank as a launcher does. Both ways give
// the same bits, so the losses after each epoch must be equal, and what differs is time.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/train_options.h"
#include "lab/cluster.h"

namespace sumcast::cli {

struct CompareFlags {
  bool wanted = false;
  std::string rate;       ///< Of each member's link; empty: no limit.
  double until_loss = 0;  ///< 0: the best that comes.
  uint32_t repeats = 1;   ///< Trainings each way, by turns.
};

/// What one training said.
struct CompareRun {
  std::vector<double> losses, seconds;  ///< By epoch: held-out loss, and time in training.
  uint64_t steps = 0;                   ///< Of an epoch.
  double hot_share = 0;                 ///< In the last epoch.

  /// Time until an epoch ended with such a loss; empty: none did.
  std::optional<double> seconds_until(double loss) const;
};
/// From lines of `sumcast train --json`. kInternal: a line of another kind.
Result<CompareRun> compare_run_of(const std::vector<std::string>& lines);

struct CompareSpread {
  double median = 0, min = 0, max = 0;
};
/// What one way came to over its trainings.
struct CompareRow {
  std::string way;
  CompareSpread seconds;    ///< To the loss.
  CompareSpread faster_by;  ///< The first way's time over this one's, training by training.
  std::vector<double> seconds_of_runs;
  double step_ms = 0, hot_share = 0;  ///< Medians.
};
/// @param base  the first way's trainings, which were made by turns with `runs`: as many.
/// kMismatch: losses differ. kInvalidArgument: a training did not come to `loss`.
Result<CompareRow> compare_row(const std::string& way, const std::vector<CompareRun>& runs,
                               const std::vector<CompareRun>& base, double loss);

/// The command of one member.
std::vector<std::string> train_argv(const std::string& program, const TrainOptions& options);

/// Prints a table, or with --json a row for each way. kMismatch: the ways' losses differ.
Result<void> run_comparison(const TrainOptions& options, const CompareFlags& flags);

}  // namespace sumcast::cli

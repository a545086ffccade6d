// `sumcast train --compare`: the same training with all keys on servers and with hot keys on the
// aggregator, each member in a network namespace of its own, until both have the same loss on
// held-out data.
//
// Every member is this program as `sumcast train`, told its rank as a launcher does. Both ways give
// the same bits, so the losses after each epoch must be equal, and what differs is time.
#pragma once

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

/// The command of one member.
std::vector<std::string> train_argv(const std::string& program, const TrainOptions& options);

/// Prints a table, or with --json a row for each way. kMismatch: the ways' losses differ.
Result<void> run_comparison(const TrainOptions& options, const CompareFlags& flags);

}  // namespace sumcast::cli

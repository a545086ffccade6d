#include "cli/pipe_accuracy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "cli/pipe_print.h"
#include "trainer/workload.h"

namespace sumcast::cli {
namespace {

using plan::Schedule;

/// The one model that is trained for real has the shape of bench convergence's.
constexpr std::string_view kTrainedModel = "mlp";
constexpr uint32_t kAllImages = 60'000;
/// The target is so much below what synchronous training ends with.
constexpr double kBelowSync = 0.01;

uint32_t batch_of_trained() {
  return static_cast<uint32_t>(trainer::workload_layers(kTrainedModel)->front().rows);
}

/// Means over seeds, epoch by epoch; those of one setting.
using Curves = std::map<std::string, std::vector<double>, std::less<>>;

Curves curves_of(const std::vector<ConvergenceRun>& runs, const std::string& grid,
                 const std::string& setting) {
  Curves sums;
  std::map<std::string, double> counts;
  for (const ConvergenceRun& run : runs) {
    if (run.grid != grid || run.setting != setting || run.epochs.empty()) continue;
    std::vector<double>& sum = sums[run.variant];
    sum.resize(run.epochs.size());
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += run.epochs[i];
    counts[run.variant] += 1;
  }
  for (auto& [variant, sum] : sums) {
    for (double& value : sum) value /= counts[variant];
  }
  return sums;
}

/// The first run of the rows' configuration; null if there is none.
const ConvergenceRun* fitting(const std::vector<ConvergenceRun>& runs, const PipeRow& row) {
  if (row.model != kTrainedModel) return nullptr;
  const auto fits = [&](const ConvergenceRun& run) {
    const auto grid = grid_from_text(run.grid);
    return grid && grid->workers == row.workers && grid->batch == batch_of_trained() &&
           !run.epochs.empty();
  };
  const auto found = std::ranges::find_if(runs, fits);
  return found == runs.end() ? nullptr : &*found;
}

void add_curves(const std::vector<const PipeRow*>& group, const ConvergenceRun& like,
                const Curves& curves, report::PipelineSection& section) {
  const double steps = grid_from_text(like.grid)->steps_per_epoch();
  for (const PipeRow* row : group) {
    const auto found = curves.find(variant_of(row->mode));
    if (found == curves.end()) continue;
    report::AccuracyCurve& curve = section.curves.emplace_back();
    curve.label = plan::describe(row->mode);
    curve.accuracy = found->second;
    for (size_t epoch = 1; epoch <= curve.accuracy.size(); ++epoch) {
      curve.seconds.push_back(static_cast<double>(epoch) * steps * row->step_s);
    }
  }
  const auto sync = curves.find("sync");
  const auto& reference = sync != curves.end() ? sync->second : curves.begin()->second;
  section.target_accuracy = std::max(0.0, reference.back() - kBelowSync);
  section.training = fmt::format(
      "MLP 784-512-512-10 on Fashion-MNIST, {}, {}: accuracy of a real training with the mode's "
      "width, remedies and wire, its steps at the pace measured here.",
      like.setting, like.grid);
}

}  // namespace

std::string_view variant_of(const plan::Mode& mode) {
  using plan::Packing;
  if (mode.schedule == Schedule::kAsync) return "async";
  if (mode.schedule != Schedule::kPipe) return mode.wire == WireFormat::kNative ? "sync" : "";
  const bool native = mode.wire == WireFormat::kNative && mode.packing == Packing::kNone;
  if (mode.width == 3) return native ? "local-3" : "";
  if (mode.width != 2) return "";
  if (mode.packing == Packing::kTopK) return "local-top-k";
  if (mode.packing == Packing::kQsgd) return "local-qsgd";
  if (mode.wire == WireFormat::kBF16) return "local-bf16";
  if (mode.wire == WireFormat::kInt8) return "local-int8";
  return native ? "local" : "";
}

double TrainedGrid::steps_per_epoch() const {
  return static_cast<double>(images / (uint64_t{workers} * batch));
}

std::optional<TrainedGrid> grid_from_text(const std::string& text) {
  TrainedGrid grid;
  char images[16] = {};
  if (std::sscanf(text.c_str(), "%u workers, %u epochs of %15s images, batch %u", &grid.workers,
                  &grid.epochs, images, &grid.batch) != 4) {
    return std::nullopt;
  }
  const std::string_view count = images;
  if (count == "all") {
    grid.images = kAllImages;
  } else if (std::sscanf(images, "%u", &grid.images) != 1) {
    return std::nullopt;
  }
  if (grid.workers == 0 || grid.batch == 0 || grid.steps_per_epoch() < 1) return std::nullopt;
  return grid;
}

Result<void> add_accuracy(const std::vector<PipeRow>& rows, const std::vector<ConvergenceRun>& runs,
                          report::PipelineReportData& data) {
  const auto groups = decisions_of(rows);
  bool any = false;
  for (size_t i = 0; i < groups.size(); ++i) {
    const ConvergenceRun* const like = fitting(runs, *groups[i].front());
    if (like == nullptr) continue;
    add_curves(groups[i], *like, curves_of(runs, like->grid, like->setting), data.sections[i]);
    any = true;
  }
  if (any) return {};
  return fail(
      ErrorCode::kInvalidArgument,
      fmt::format("no run of the cells' configuration: make some with sumcast bench "
                  "convergence --workers {} --batch {}, and measure --model {}",
                  rows.empty() ? 4u : rows.front().workers, batch_of_trained(), kTrainedModel));
}

}  // namespace sumcast::cli

#include "embedding/rows_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace sumcast::embedding {
namespace {

/// A server in each of very many ranks would make a round of many small messages.
constexpr uint32_t kServersDefaultMax = 16;

}  // namespace

Result<sparse::Options> rows_options(const TableOptions& options, uint32_t workers) {
  const auto refuse = [](std::string why) {
    return fail(ErrorCode::kInvalidArgument, "table: " + std::move(why));
  };
  const auto kind = table::optimizer_from_name(options.optimizer);
  if (!kind) {
    return refuse(
        fmt::format("optimizer \"{}\"; there are {}", options.optimizer, table::optimizer_names()));
  }
  if (workers == 0) return refuse("a job of no ranks");
  if (options.servers > workers) {
    return refuse(
        fmt::format("{} servers in {} ranks; a rank holds one at most", options.servers, workers));
  }
  if (options.hot_max != 0 && options.track == 0) {
    return refuse("hot keys are to be followed every 0 rounds; name 1 or more");
  }
  if (options.resume && options.checkpoint_directory.empty()) {
    return refuse("a checkpoint to go on from, but no directory");
  }
  sparse::Options rows;
  rows.workers = workers;
  rows.servers = options.servers != 0 ? options.servers : std::min(workers, kServersDefaultMax);
  rows.segments = options.segments;
  rows.wire = options.wire;
  rows.row_wire = options.row_wire;
  rows.checkpoint_directory = options.checkpoint_directory;
  rows.shape.width = options.width;
  rows.shape.init_scale = options.init_scale;
  rows.shape.seed = options.seed;
  table::Optimizer& rule = rows.shape.optimizer;
  rule.kind = *kind;
  rule.rate = options.rate;
  rule.momentum = options.momentum;
  rule.beta1 = options.beta1;
  rule.beta2 = options.beta2;
  rule.epsilon = options.epsilon;
  rule.beta = options.beta;
  rule.l1 = options.l1;
  rule.l2 = options.l2;
  rule.initial = options.initial;
  rows.shape.life = {options.admit_after, options.evict_after};
  rows.shape.rows_max = sparse::segment_rows_max(options.max_rows, rows);
  if (auto fine = rows.validate(); !fine) return fail(fine.error());
  return rows;
}

Result<void> open_checkpoint(const TableOptions& options, sparse::Options& rows) {
  if (options.checkpoint_directory.empty()) return {};
  std::error_code error;
  std::filesystem::create_directories(options.checkpoint_directory, error);
  if (error) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("table: cannot make the directory {}: {}", options.checkpoint_directory,
                            error.message()));
  }
  if (!options.resume) return {};
  auto found = sparse::read_manifest(options.checkpoint_directory);
  if (!found) return fail(found.error());
  rows.restore = std::move(*found);
  return rows.validate();
}

}  // namespace sumcast::embedding

#include "cli/sparse_bench.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "cli/pslite_crew.h"
#include "cli/sparse_batches.h"
#include "cli/sparse_crew.h"

namespace sumcast::cli {
namespace {

/// A path and who runs it.
struct Contender {
  std::string path;
  SparseCrew* crew = nullptr;
  PathTally tally;
};

Result<std::unique_ptr<BenchSite>> make_site(const SparseFlags& flags) {
  BenchFlags bench;
  bench.workers = flags.workers + flags.servers;
  bench.rate = flags.rate;
  bench.loopback = flags.loopback;
  bench.loss = flags.loss;
  const auto plan = plan_bench(bench);
  if (!plan) return fail(plan.error());
  return BenchSite::create(*plan);
}

/// For batches like worker 0's.
Result<SparseFlags> choose_segments(SparseFlags flags, const sparse::Options& options) {
  if (flags.segments != 0) return flags;
  auto stream = make_sparse_stream(flags);
  if (!stream) return fail(stream.error());
  const auto rows = static_cast<double>(draw_sparse_batches(**stream, flags, 0).most());
  flags.segments = sparse::segments_for(rows, options.servers, options.shape, options.wire);
  return flags;
}

}  // namespace

Result<std::vector<SparseRow>> measure_sparse(const SparseFlags& asked, std::string_view label) {
  const auto options = sparse_options(asked);
  if (!options) return fail(options.error());
  const auto with_segments = choose_segments(asked, *options);
  if (!with_segments) return fail(with_segments.error());
  const SparseFlags& flags = *with_segments;
  const auto paths = sparse_paths(flags.paths);
  if (!paths) return fail(paths.error());
  std::optional<std::string> pslite;
  if (!flags.peer.empty()) {
    auto directory = pslite_directory(flags);
    if (!directory) return fail(directory.error());
    pslite = *directory;
  }
  auto site = make_site(flags);
  if (!site) return fail(site.error());
  const bool shows_progress = ::isatty(STDERR_FILENO) == 1;
  const auto progress = [&](const std::string& text) {
    if (shows_progress) fmt::print(stderr, "\r\x1b[K{}{}", text.empty() ? "" : label, text);
  };
  const auto stop = [&](const Error& error) {
    progress("");
    return fail(error);
  };
  progress("starting workers and servers");
  SparseCrew ours(**site, flags);
  if (auto started = ours.start(); !started) return stop(started.error());
  (*site)->forget_key_file();
  std::vector<Contender> contenders;
  for (const SparsePath path : *paths) {
    contenders.push_back({std::string(name_of(path)), &ours, {}});
  }
  std::unique_ptr<PsLiteCrew> theirs;
  if (pslite) {
    progress("building and starting ps-lite");
    auto crew = PsLiteCrew::create(**site, flags, *pslite);
    if (!crew) return stop(crew.error());
    theirs = std::move(*crew);
    if (auto started = theirs->start(); !started) return stop(started.error());
    contenders.push_back({std::string(kPsLite), theirs.get(), {}});
  }
  for (uint32_t repeat = 0; repeat < flags.repeats; ++repeat) {
    for (Contender& one : contenders) {
      progress(fmt::format("{}/{}: {}", repeat + 1, flags.repeats, one.path));
      if (auto done = one.crew->turn(one.path, one.tally); !done) return stop(done.error());
    }
  }
  progress("");
  if (auto finished = ours.finish(); !finished) return fail(finished.error());
  if (theirs) {
    if (auto finished = theirs->finish(); !finished) return fail(finished.error());
  }
  std::vector<SparseRow> rows;
  for (const Contender& one : contenders) {
    rows.push_back(row_of(one.path, one.tally, contenders[0].tally, flags));
  }
  return rows;
}

namespace {

Result<void> run_stage(const SparseFlags& flags) {
  const auto rows = measure_sparse(flags, "");
  if (!rows) return fail(rows.error());
  if (flags.json) {
    for (const SparseRow& row : *rows) fmt::print("{}\n", to_json_line(row, flags));
    std::fflush(stdout);
  } else {
    fmt::print("{}", sparse_table(*rows, flags));
  }
  const auto is_wrong = [](const SparseRow& row) { return row.wrong != 0; };
  if (std::ranges::any_of(*rows, is_wrong)) {
    return fail(ErrorCode::kMismatch, "paths ended with different rows");
  }
  return {};
}

}  // namespace

Result<void> run_sparse_bench(const SparseFlags& flags) {
  const auto stages = sparse_stages(flags);
  if (!stages) return fail(stages.error());
  for (const SparseFlags& stage : *stages) {  // All of it can be, before any of it is measured.
    if (const auto options = sparse_options(stage); !options) return fail(options.error());
  }
  for (const SparseFlags& stage : *stages) {
    if (auto done = run_stage(stage); !done) return done;
  }
  return {};
}

}  // namespace sumcast::cli

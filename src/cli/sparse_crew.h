// The members of a sparse bench, driven line by line (sparse_member.h), and what their links carry.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/bench_site.h"
#include "cli/sparse_plan.h"

namespace sumcast::cli {

/// What blocks of one path add up to.
struct PathTally {
  std::vector<double> round_us;
  std::vector<std::vector<uint64_t>> hashes;  // By block and worker.
  double worker_bytes = 0, server_bytes = 0, server_packets = 0;
  uint64_t server_drops = 0;
  uint64_t rounds = 0, hot_pushed = 0, cold_pushed = 0, hot_keys = 0;
  std::string chosen;
};

/// Workers first, then servers, each on a node of its own; all are ended with this object.
class SparseCrew {
 public:
  /// Both outlive the crew.
  SparseCrew(BenchSite& site, const SparseFlags& flags) : site_(site), flags_(flags) {}
  virtual ~SparseCrew() = default;

  /// Returns when all have said that they are ready.
  Result<void> start();
  /// One block.
  Result<void> turn(std::string_view path, PathTally& tally);
  Result<void> finish();

 protected:
  /// Fills members_.
  virtual Result<void> spawn();

  BenchSite& site_;
  const SparseFlags& flags_;
  std::vector<lab::Process> members_;

 private:
  Result<std::vector<std::string>> ask_workers(const std::string& line, Duration patience);
  Result<std::vector<std::string>> collect(size_t members, Duration patience);
  void count_links(const std::vector<lab::LinkCounters>& before,
                   const std::vector<lab::LinkCounters>& after, PathTally& tally) const;
  Error explain(size_t member, const Error& error);
};

/// @param first  of the path that the others must agree with.
SparseRow row_of(std::string_view path, const PathTally& tally, const PathTally& first,
                 const SparseFlags& flags);

}  // namespace sumcast::cli

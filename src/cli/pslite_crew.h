// `sumcast bench sparse --peer pslite=DIR`: a user's own ps-lite as one more path.
//
// A driver of ours (bench/ps/ps_rounds_main.cc) is compiled against it in a scratch directory and
// trains the batches of our paths on the same nodes, its scheduler on the aggregator's. Its rows
// must end with the bits of ours.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cli/sparse_batches.h"
#include "cli/sparse_crew.h"

namespace sumcast::cli {

inline constexpr std::string_view kPsLite = "ps-lite";

/// "pslite=DIR" as DIR. kInvalidArgument: another peer, or flags that the driver does not have.
Result<std::string> pslite_directory(const SparseFlags& flags);

class PsLiteCrew final : public SparseCrew {
 public:
  /// Compiles the driver and writes the batches. kUnavailable: no compiler, no built ps-lite in
  /// `directory`, or no source tree of ours.
  static Result<std::unique_ptr<PsLiteCrew>> create(BenchSite& site, const SparseFlags& flags,
                                                    const std::string& directory);

 protected:
  Result<void> spawn() override;

 private:
  using SparseCrew::SparseCrew;
  Result<void> build(const std::string& directory);
  Result<void> write_batches();

  std::optional<ScratchDirectory> scratch_;
  float rate_ = 0;
};

}  // namespace sumcast::cli

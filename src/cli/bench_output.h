// What a bench prints, and its exit code. One contender: nccl-tests' table, row by row. Several:
// one table each at the end, then the ratios. With --json: one object per row on standard output
// and nothing else there.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/bench_contender.h"
#include "report/bench_rows.h"
#include "report/nccl_table.h"
#include "report/progress.h"

namespace sumcast::cli {

class BenchOutput {
 public:
  /// @param args  the command line, for the document of -J.
  BenchOutput(const BenchPlan& plan, std::vector<std::string> args);

  void begin();
  void on_round(const BenchCase& bench, uint32_t round, uint32_t rounds);
  void on_row(const Contender& contender, const BenchCase& bench, const Tally& tally);
  /// Prints what is left and writes -J. Returns the exit code: 0, or 1 if any element was wrong or
  /// NCCL_TESTS_MIN_BW was missed. Errors: kSystem if -J cannot be written.
  Result<int> finish();

 private:
  struct Table {
    std::vector<report::NcclRow> rows;
    std::vector<std::string> lines;  ///< Rows as text, with what follows them.
  };

  bool streams() const { return plan_.contenders.size() == 1 && !plan_.flags.json; }
  Result<void> write_document(const ContenderSpec& contender, const Table& table) const;
  std::string document_path(const ContenderSpec& contender) const;

  const BenchPlan& plan_;
  std::vector<std::string> args_;
  report::NcclRun run_;
  report::BandwidthFloor floor_;
  std::string started_;
  report::Progress progress_;
  std::map<std::string, Table> tables_;
  std::vector<report::BenchRow> rows_;
};

}  // namespace sumcast::cli

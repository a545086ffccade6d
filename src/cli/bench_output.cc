#include "cli/bench_output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "cli/bench_rows_maker.h"
#include "cli/output_file.h"
#include "report/ratio_table.h"
#include "report/units.h"
#include "runtime/clock.h"
#include "runtime/environment.h"

namespace sumcast::cli {
namespace {

constexpr int kLibraryVersion = 100;  // 0.1.0, in NCCL's way of writing.

/// "YYYY-MM-DD hh:mm:ss", as nccl-tests writes it.
std::string time_text() {
  std::string text = runtime::wall_time_text().substr(0, 19);
  if (text.size() > 10) text[10] = ' ';
  return text;
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "CPU";
}

report::NcclRun run_of(const BenchPlan& plan) {
  const BenchFlags& flags = plan.flags;
  report::NcclRun run;
  run.headers_version = run.library_version = kLibraryVersion;
  run.program = fmt::format("{}_perf", name_of(plan.collective));
  run.bytes_min = plan.bytes_min;
  run.bytes_max = plan.bytes_max;
  run.step_bytes = plan.step_bytes;
  run.step_factor = std::max(flags.step_factor, 1u);
  run.warmup_iterations = static_cast<int>(flags.warmup);
  run.iterations = static_cast<int>(flags.iterations);
  run.validation = static_cast<int>(flags.check);
  run.unalign = static_cast<int>(flags.unalign);
  const std::string processor = processor_name();
  for (uint32_t rank = 0; rank < flags.workers; ++rank) {
    const int index = static_cast<int>(rank);
    run.devices.push_back(
        {index, 0, static_cast<int>(::getpid()), fmt::format("worker{}", rank), 0, processor});
  }
  return run;
}

report::BandwidthFloor floor_from_environment() {
  const auto text = runtime::environment("NCCL_TESTS_MIN_BW");
  if (!text) return std::nullopt;
  const double floor = std::strtod(text->c_str(), nullptr);
  return floor > 0 ? report::BandwidthFloor(floor) : std::nullopt;
}

}  // namespace

BenchOutput::BenchOutput(const BenchPlan& plan, std::vector<std::string> args)
    : plan_(plan),
      args_(std::move(args)),
      run_(run_of(plan)),
      floor_(floor_from_environment()),
      started_(time_text()),
      progress_(report::probe_terminal(STDERR_FILENO, !runtime::environment("NO_COLOR"))) {}

void BenchOutput::begin() {
  if (streams()) fmt::print("{}", report::nccl_header(run_));
  std::fflush(stdout);
  progress_.expect_bars(static_cast<int>(plan_.cases.size()));
}

void BenchOutput::on_round(const BenchCase& bench, uint32_t round, uint32_t rounds) {
  const Instant now = runtime::monotonic_now();
  if (round == 0) {
    progress_.begin(report::format_bytes(static_cast<double>(bench.bytes)), rounds, now);
  }
  progress_.update(round, now);
  if (round == rounds) progress_.finish(now);
}

void BenchOutput::on_row(const Contender& contender, const BenchCase& bench, const Tally& tally) {
  const ContenderSpec& spec = contender.spec();
  rows_.push_back(bench_row_of(spec, plan_, bench, contender.shape(), tally));
  Table& table = tables_[spec.name];
  table.rows.push_back(nccl_row_of(bench, plan_.flags.workers, tally));
  std::string line = report::nccl_row(table.rows.back());
  if (plan_.flags.timestamps) {
    line.pop_back();
    line += " " + time_text() + "\n";
  }
  if (plan_.flags.per_iteration) line += spread_line(tally) + "\n";
  if (const std::string note = contender.note(bench); !note.empty()) line += "# " + note + "\n";
  if (plan_.flags.json) {
    fmt::print("{}\n", report::to_json_line(rows_.back()));
  } else if (streams()) {
    fmt::print("{}", line);
  }
  std::fflush(stdout);
  table.lines.push_back(std::move(line));
}

Result<int> BenchOutput::finish() {
  bool good = true;
  for (const ContenderSpec& spec : plan_.contenders) {
    const Table& table = tables_[spec.name];
    good = good && report::nccl_verdict(table.rows, floor_).okay;
    if (!plan_.flags.json) {
      if (!streams()) fmt::print("# {}\n{}", spec.name, report::nccl_header(run_));
      for (const std::string& line : table.lines) {
        if (!streams()) fmt::print("{}", line);
      }
      fmt::print("{}\n", report::nccl_footer(run_, table.rows, floor_));
    }
    if (plan_.flags.json_file.empty()) continue;
    if (Result<void> written = write_document(spec, table); !written) {
      return fail(written.error());
    }
  }
  if (!plan_.flags.json && plan_.contenders.size() > 1) {
    fmt::print("# Speed against {}, in place\n{}", plan_.reference,
               report::ratio_table(rows_, plan_.reference));
  }
  std::fflush(stdout);
  return good ? 0 : 1;
}

std::string BenchOutput::document_path(const ContenderSpec& contender) const {
  const std::string& path = plan_.flags.json_file;
  if (plan_.contenders.size() == 1) return path;
  // "out.json" becomes "out.ring.json": the document has room for one algorithm.
  const size_t slash = path.rfind('/');
  const size_t dot = path.rfind('.');
  const bool has_suffix =
      dot != std::string::npos && (slash == std::string::npos || dot > slash + 1);
  const size_t at = has_suffix ? dot : path.size();
  return path.substr(0, at) + "." + contender.name + path.substr(at);
}

Result<void> BenchOutput::write_document(const ContenderSpec& contender, const Table& table) const {
  const std::string path = document_path(contender);
  report::NcclDocument document;
  document.start_time = started_;
  document.end_time = time_text();
  document.args = args_;
  auto written = write_output_file(path, report::nccl_json(run_, table.rows, floor_, document));
  if (!written) return fail(written.error().within("-J"));
  return {};
}

}  // namespace sumcast::cli

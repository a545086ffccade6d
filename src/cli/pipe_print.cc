#include "cli/pipe_print.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "cli/speed_watch.h"
#include "report/table.h"
#include "report/units.h"

namespace sumcast::cli {
namespace {

using plan::Collective;
using plan::Schedule;

constexpr double kRightWithin = 0.03;

std::string time_text(double seconds) {
  return report::format_duration(Duration(static_cast<int64_t>(seconds * 1e9)));
}

double error_of(const PipeRow& row) { return row.predicted.step_s / row.step_s - 1; }

template <typename Wanted>
const PipeRow* fastest(const std::vector<const PipeRow*>& group, const Wanted& wanted) {
  const PipeRow* best = nullptr;
  for (const PipeRow* row : group) {
    if (wanted(row->mode) && (best == nullptr || row->step_s < best->step_s)) best = row;
  }
  return best;
}

/// "best K=2 over server 6.1x (pipe K=2, in-network, int8)" and its kin.
std::string headlines(const std::vector<const PipeRow*>& group) {
  const auto two = [](const plan::Mode& m) {
    return m.schedule == Schedule::kPipe && m.width == 2;
  };
  const auto is = [](Schedule schedule, Collective collective) {
    return [=](const plan::Mode& m) {
      return m.schedule == schedule && m.collective == collective &&
             m.packing == plan::Packing::kNone && m.wire == WireFormat::kNative && m.width <= 2;
    };
  };
  const PipeRow* const best = fastest(group, two);
  const PipeRow* const native = fastest(group, [&](const plan::Mode& m) {
    return two(m) && m.wire == WireFormat::kNative && m.packing == plan::Packing::kNone;
  });
  std::string text;
  const auto over = [&](const char* label, const PipeRow* slow, const PipeRow* fast) {
    if (slow == nullptr || fast == nullptr) return;
    text +=
        fmt::format("  {:<46}{:>7}   {}\n", label,
                    report::format_ratio(slow->step_s / fast->step_s), plan::describe(fast->mode));
  };
  over("best K=2 over the synchronous server",
       fastest(group, is(Schedule::kSync, Collective::kServer)), best);
  over("best K=2 over the asynchronous server",
       fastest(group, is(Schedule::kAsync, Collective::kServer)), best);
  over("best K=2 over the synchronous ring", fastest(group, is(Schedule::kSync, Collective::kRing)),
       best);
  over("K=2 with f32 over the synchronous ring",
       fastest(group, is(Schedule::kSync, Collective::kRing)), native);
  over("K=2 over bucket overlap, both in-network f32",
       fastest(group, is(Schedule::kOverlap, Collective::kInNetwork)),
       fastest(group, is(Schedule::kPipe, Collective::kInNetwork)));
  if (group.front()->delay > Duration{0}) {
    const auto wider = [](const plan::Mode& m) {
      return m.schedule == Schedule::kPipe && m.width > 2;
    };
    over("K > 2 over K=2", best, fastest(group, wider));
  }
  return text;
}

std::string heading(const PipeRow& row) {
  return fmt::format(
      "{}, {} workers, ring/computing = {}{}: links of {}, computing {}", row.model, row.workers,
      row.ratio,
      row.delay > Duration{0} ? fmt::format(", delay {}", report::format_duration(row.delay)) : "",
      report::format_bit_rate(static_cast<double>(row.rate_bps)), time_text(row.compute_s));
}

}  // namespace

std::vector<std::vector<const PipeRow*>> decisions_of(const std::vector<PipeRow>& rows) {
  std::vector<std::vector<const PipeRow*>> groups;
  for (const PipeRow& row : rows) {
    const PipeRow* const before = groups.empty() ? nullptr : groups.back().front();
    if (before == nullptr || before->model != row.model || before->ratio != row.ratio ||
        before->workers != row.workers || before->delay != row.delay) {
      groups.emplace_back();
    }
    groups.back().push_back(&row);
  }
  return groups;
}

PipeVerdict verdict_on(const std::vector<PipeRow>& rows) {
  PipeVerdict verdict;
  std::vector<double> errors;
  for (const PipeRow& row : rows) {
    errors.push_back(std::fabs(error_of(row)));
    verdict.disturbed += std::fabs(row.drift) > SpeedWatch::kSteady;
    verdict.drift_worst = std::max(verdict.drift_worst, std::fabs(row.drift));
  }
  if (errors.empty()) return verdict;
  std::sort(errors.begin(), errors.end());
  verdict.error_median = errors[errors.size() / 2];
  verdict.error_worst = errors.back();
  for (const auto& group : decisions_of(rows)) {
    const auto by = [&](const auto& time) {
      return *std::min_element(group.begin(), group.end(), [&](const PipeRow* a, const PipeRow* b) {
        return time(*a) < time(*b);
      });
    };
    if (!group.front()->decides) continue;
    const PipeRow* const foretold = by([](const PipeRow& r) { return r.predicted.step_s; });
    const PipeRow* const best = by([](const PipeRow& r) { return r.step_s; });
    ++verdict.decisions;
    verdict.right += foretold->step_s <= best->step_s * (1 + kRightWithin);
  }
  return verdict;
}

std::string pipe_text(const std::vector<PipeRow>& rows) {
  std::string text;
  for (const auto& group : decisions_of(rows)) {
    text += "\n" + heading(*group.front()) + "\n";
    report::Table table({{"mode", report::Align::kLeft},
                         {"step"},
                         {"idle"},
                         {"link idle"},
                         {"bytes"},
                         {"predicted"},
                         {"low"},
                         {"high"},
                         {"error"}});
    for (const PipeRow* row : group) {
      table.add_row({plan::describe(row->mode), time_text(row->step_s),
                     report::format_percent(row->idle_share),
                     report::format_percent(row->link_idle_share),
                     report::format_bytes(row->link_bytes), time_text(row->predicted.step_s),
                     time_text(row->predicted.low_s), time_text(row->predicted.high_s),
                     fmt::format("{:+.1f} %", 100 * error_of(*row))});
    }
    text += table.to_string() + headlines(group);
  }
  const PipeVerdict verdict = verdict_on(rows);
  if (verdict.disturbed > 0) {
    text += fmt::format(
        "\n{} of {} cells were measured beside something else for want of a quieter moment: "
        "computing alone took up to {:.0f} % longer or shorter than before\n",
        verdict.disturbed, rows.size(), 100 * verdict.drift_worst);
  }
  text += fmt::format(
      "\npredictions: off by {:.1f} % (median) and {:.1f} % (worst) over {} cells; the mode "
      "predicted to be best was within 3 % of the best in {} of {} decisions ({:.0f} %)\n",
      100 * verdict.error_median, 100 * verdict.error_worst, rows.size(), verdict.right,
      verdict.decisions,
      verdict.decisions > 0
          ? 100.0 * static_cast<double>(verdict.right) / static_cast<double>(verdict.decisions)
          : 0.0);
  return text;
}

report::PipelineReportData pipe_report(const std::vector<PipeRow>& rows) {
  report::PipelineReportData data;
  const PipeVerdict verdict = verdict_on(rows);
  data.error_median = verdict.error_median;
  data.error_worst = verdict.error_worst;
  for (const auto& group : decisions_of(rows)) {
    report::PipelineSection& section = data.sections.emplace_back();
    section.heading = heading(*group.front());
    for (const PipeRow* row : group) {
      report::PipelineEntry& entry = section.entries.emplace_back();
      entry.label = plan::describe(row->mode);
      entry.step_s = row->step_s;
      entry.predicted_s = row->predicted.step_s;
      entry.low_s = row->predicted.low_s;
      entry.high_s = row->predicted.high_s;
      entry.idle_share = row->idle_share;
      for (const PipeSpan& span : row->spans) {
        entry.spans.push_back({span.sum, static_cast<double>(span.start_ns) * 1e-9,
                               static_cast<double>(span.end_ns) * 1e-9});
      }
    }
  }
  return data;
}

}  // namespace sumcast::cli

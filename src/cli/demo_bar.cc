#include "cli/demo_bar.h"

#include <fmt/format.h>

#include <utility>

namespace sumcast::cli {
namespace {

/// Of "step 1234/1234  loss 0.1234" and a gap in front.
constexpr int kNoteWidth = 30;
/// Below this the bar alone needs the line.
constexpr int kColumnsMin = 90;

report::Terminal without_note(report::Terminal terminal) {
  if (terminal.columns >= kColumnsMin) terminal.columns -= kNoteWidth;
  return terminal;
}

}  // namespace

DemoBar::DemoBar(report::Terminal terminal, int methods, report::Progress::Write write)
    : write_(std::move(write)),
      progress_(without_note(terminal), [this](std::string_view text) { this->write(text); }) {
  if (terminal.columns >= kColumnsMin) note_column_ = terminal.columns - kNoteWidth + 2;
  progress_.expect_bars(methods);
}

void DemoBar::begin(std::string_view method, uint64_t steps, Instant now) {
  steps_ = steps;
  note_.clear();
  progress_.begin(method, steps, now);
}

void DemoBar::update(uint64_t step, float loss, Instant now) {
  note_ = fmt::format("step {}/{}  loss {:.4f}", step, steps_, loss);
  progress_.update(step, now);
}

void DemoBar::finish(Instant now) { progress_.finish(now); }

void DemoBar::write(std::string_view text) const {
  if (note_column_ == 0 || note_.empty() || !text.starts_with('\r')) return write_(text);
  const bool last = text.ends_with('\n');
  if (last) text.remove_suffix(1);
  write_(fmt::format("{}\x1b[{}G{}{}", text, note_column_, note_, last ? "\n" : ""));
}

}  // namespace sumcast::cli

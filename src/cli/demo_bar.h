// The demo's progress bar: which method of how many, how far, the loss, and the time left.
//
// report::Progress draws bar and time; this adds step and loss at the line's right end. It does so
// on what Progress writes: Progress is told of a terminal that is narrower by the note's width.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/time.h"
#include "report/progress.h"

namespace sumcast::cli {

/// One thread at a time. Writes nothing where there is no terminal.
class DemoBar {
 public:
  DemoBar(report::Terminal terminal, int methods, report::Progress::Write write);
  DemoBar(const DemoBar&) = delete;
  DemoBar& operator=(const DemoBar&) = delete;

  /// Opens the bar of the next method.
  void begin(std::string_view method, uint64_t steps, Instant now);
  void update(uint64_t step, float loss, Instant now);
  void finish(Instant now);

 private:
  void write(std::string_view text) const;

  // progress_ writes when it is destroyed, so it goes first.
  report::Progress::Write write_;
  int note_column_ = 0;  ///< Of the terminal, from 1; 0: no room for a note.
  uint64_t steps_ = 0;
  std::string note_;
  report::Progress progress_;
};

}  // namespace sumcast::cli

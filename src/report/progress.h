// Progress bars for long work, one after the other, on a terminal only.
//
// Whether there is a terminal, how wide it is and whether colours are wanted is told from outside
// (probe_terminal asks the file descriptor; NO_COLOR is the caller's to read), as is the time: the
// class itself writes to a function and can be tested without a terminal. Off a terminal it writes
// nothing at all, so logs stay clean.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/time.h"

namespace sumcast::report {

struct Terminal {
  bool present = false;  ///< False: no bar is ever written.
  bool colour = false;
  int columns = 80;
};

/// Asks `fd` (2 is standard error). `colour_allowed`: false if NO_COLOR is set or a flag says so.
Terminal probe_terminal(int fd, bool colour_allowed);

/// One thread at a time.
class Progress {
 public:
  using Write = std::function<void(std::string_view)>;

  /// Writes to standard error, unbuffered.
  explicit Progress(Terminal terminal);
  Progress(Terminal terminal, Write write) : terminal_(terminal), write_(std::move(write)) {}
  /// Ends the line of a bar that is still open, so that a message after it starts on its own.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// How many bars will come; shown as "2/5" from the first on. Zero: not shown.
  void expect_bars(int count) { bars_ = count; }

  /// Opens the next bar; an open one is finished first. `total` > 0 is what `done` will reach.
  void begin(std::string_view label, uint64_t total, Instant now);
  /// Redraws at most ten times a second, and only if `done` moved.
  void update(uint64_t done, Instant now);
  /// Draws the bar's last state with the time that it took, and ends its line.
  void finish(Instant now);

 private:
  void draw(Instant now, bool last);

  Terminal terminal_;
  Write write_;
  int bars_ = 0;
  int bar_ = 0;
  bool open_ = false;
  std::string label_;
  uint64_t total_ = 1;
  uint64_t done_ = 0;
  Instant started_;
  Instant drawn_;
};

}  // namespace sumcast::report

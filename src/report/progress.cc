#include "report/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "base/assert.h"
#include "report/table.h"
#include "report/units.h"

namespace sumcast::report {
namespace {

constexpr Duration kRedrawMin = 100ms;
/// Labels are padded to this many cells, so that bars below one another line up.
constexpr size_t kLabelWidth = 18;
/// Room for " 100 %  59 min 59 s left".
constexpr size_t kTailWidth = 24;
constexpr size_t kBarWidthMax = 40;

std::string repeated(std::string_view text, size_t times) {
  std::string out;
  for (size_t i = 0; i < times; ++i) out += text;
  return out;
}

void write_to_stderr(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    if (written <= 0) return;  // A bar is not worth an error.
    text.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace

Terminal probe_terminal(int fd, bool colour_allowed) {
  Terminal terminal;
  terminal.present = isatty(fd) == 1;
  terminal.colour = terminal.present && colour_allowed;
  winsize size{};
  if (terminal.present && ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    terminal.columns = size.ws_col;
  }
  return terminal;
}

Progress::Progress(Terminal terminal) : Progress(terminal, write_to_stderr) {}

Progress::~Progress() {
  if (open_ && terminal_.present) write_("\n");
}

void Progress::begin(std::string_view label, uint64_t total, Instant now) {
  SUMCAST_ASSERT(total > 0);
  if (open_) finish(now);
  open_ = true;
  ++bar_;
  label_ = label;
  total_ = total;
  done_ = 0;
  started_ = now;
  draw(now, false);
}

void Progress::update(uint64_t done, Instant now) {
  if (!open_ || done == done_) return;
  done_ = std::min(done, total_);
  if (now - drawn_ >= kRedrawMin) draw(now, false);
}

void Progress::finish(Instant now) {
  if (!open_) return;
  draw(now, true);
  open_ = false;
}

void Progress::draw(Instant now, bool last) {
  drawn_ = now;
  if (!terminal_.present) return;
  const double share = static_cast<double>(done_) / static_cast<double>(total_);
  const Duration spent = now - started_;
  std::string head = pad_right(label_, kLabelWidth);
  if (bars_ > 0) head += fmt::format(" {}/{}", bar_, bars_);
  std::string tail = fmt::format("{:3.0f} %", 100.0 * share);
  if (last) {
    tail += "  " + format_duration(spent);
  } else if (done_ > 0 && spent >= 1s) {
    // The rest at the speed so far, in whole seconds: more digits would only flicker.
    const double left = std::chrono::duration<double>(spent).count() * (1.0 - share) / share;
    const auto seconds = static_cast<int64_t>(left + 0.5);
    tail += "  " + format_duration(std::chrono::seconds(seconds)) + " left";
  }
  const size_t columns = static_cast<size_t>(std::max(terminal_.columns, 1)) - 1;
  const size_t taken = display_width(head) + 2 + kTailWidth;
  const size_t bar = columns > taken ? std::min(columns - taken, kBarWidthMax) : 0;
  const auto filled = static_cast<size_t>(share * static_cast<double>(bar) + 0.5);
  std::string line = head;
  if (bar >= 5) {
    const std::string full = repeated("█", filled), rest = repeated("░", bar - filled);
    line +=
        terminal_.colour ? " \x1b[36m" + full + "\x1b[2m" + rest + "\x1b[0m" : " " + full + rest;
  }
  line += " " + tail;
  // Return to the line's start, erase what was there, leave the cursor at the end.
  write_("\r\x1b[K" + line + (last ? "\n" : ""));
}

}  // namespace sumcast::report

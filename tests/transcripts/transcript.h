// Runs a transcript: commands for the core in, what the core answers out.
//
// A transcript is text. A line that begins with a letter is a command; lines that begin with four
// spaces are its answer; all others (blank, or after #) are for the reader. Running one gives the
// same text with the answers that the core gives now, so that a test is a comparison and a change
// of behaviour is a diff.
//
//   at TIME                                        set the clock (it starts at 0: TIME is 5ms, 1s)
//   pool members=N slots=N [operations reorder ask]     begin with a new pool
//   contribution member=N slot=N phase=N chunk=N total=N [op=A] [quiet=1]
//   probe member=N slot=N phase=N
//   gap number=N [op=A]                            which slot keeps that result?
//   asks [room=N]                                  the pool's timer
//   window NAME slots=N [operations reorder gap]   make a window
//   submit NAME op=A total=N [first=N]
//   fill NAME [limit=N]                            what it sends now
//   send NAME member=N [limit=N]                   fill, and all of it reaches the pool
//   result NAME slot=N phase=N number=N [op=A]
//   again NAME slot=N                              the pool's stored result reaches the window
//   ask NAME slot=N phase=N
//   timeout NAME rto=TIME                          its timer
//
// Operations are letters: op=A has digest 'A'.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/send_window.h"
#include "core/slot_pool.h"

namespace sumcast::transcript {

class Interpreter {
 public:
  /// @return `text` with every answer replaced by the present one.
  std::string run(std::string_view text);

 private:
  struct Pool {
    explicit Pool(const core::SlotPoolConfig& config)
        : memory(core::SlotPool::bytes_needed(config)), pool(config, memory) {}
    std::vector<std::byte> memory;
    core::SlotPool pool;
  };
  struct Window {
    explicit Window(const core::SendWindowConfig& config)
        : memory(core::SendWindow::bytes_needed(config)), window(config, memory) {}
    std::vector<std::byte> memory;
    core::SendWindow window;
    std::vector<std::pair<char, uint32_t>> operations;  // By ticket: letter and total.
  };
  /// The words of a command; a word that nobody asked for is an error.
  class Words;

  void execute(Words& words);
  void execute_pool(Words& words);
  void execute_window(Words& words);
  void contribute(const core::Contribution& in);
  void answer_probe(Words& words);
  void say_asks(const BoundedList<core::Ask>& asks);
  void say_pool_deadline();
  void send(Words& words, bool reaches_pool);
  void accept(Window& window, const core::StoredResult& result, uint16_t slot);
  void time_out(Words& words);
  void say(std::string line) { said_.push_back(std::move(line)); }

  Instant now_{1};
  std::unique_ptr<Pool> pool_;
  std::map<std::string, std::unique_ptr<Window>> windows_;
  std::vector<std::string> said_;
};

}  // namespace sumcast::transcript

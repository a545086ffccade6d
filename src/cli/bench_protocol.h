// What the driver of a bench and its workers say to each other over pipes: one line each way.
//
//   driver                                        worker
//                                                 hello <payload bytes>       joined
//   case <collective> <type> <reduction> ...      ready                       expectation known
//   fill <in place: 0|1>                          ready                       buffers are fresh
//   go <start, ns of CLOCK_MONOTONIC>             done <wall ns> <cpu ns> <retransmits so far>
//   check                                         wrong <elements>
//
// Any reply may be "error <text>" instead. All ranks are told a start, a moment ahead: the clock
// is one for all namespaces of a machine, so they begin together, or with --skew as far apart as
// the driver likes, without a datagram. Pure: text in, values out.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/time.h"
#include "cli/bench_plan.h"

namespace sumcast::cli {

struct Command {
  enum class Kind : uint8_t { kCase, kFill, kGo, kCheck };
  Kind kind = Kind::kCheck;
  BenchCase bench;        ///< kCase.
  bool in_place = false;  ///< kFill.
  Instant start;          ///< kGo.
};
/// Without the newline.
std::string to_line(const Command& command);
/// kInternal for anything else than what to_line writes.
Result<Command> command_from_line(std::string_view line);

struct Reply {
  enum class Kind : uint8_t { kHello, kReady, kDone, kWrong, kError };
  Kind kind = Kind::kReady;
  uint32_t payload_bytes = 0;  ///< kHello.
  Duration wall{0}, cpu{0};    ///< kDone.
  uint64_t retransmits = 0;    ///< kDone.
  uint64_t wrong = 0;          ///< kWrong.
  std::string error;           ///< kError; one line.
};
std::string to_line(const Reply& reply);
Result<Reply> reply_from_line(std::string_view line);

}  // namespace sumcast::cli

// The small phrases that error texts are made of, so that all of them read alike.
//
// It knows nothing of jobs or groups: ranks, spans of time and operations in, words out.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "base/time.h"

namespace sumcast::control {

/// "rank 5", "ranks 5 and 6", "ranks 0, 2-4 and 7". `ranks` ascend; runs of three or more are
/// written as ranges, so that a list of hundreds stays a line.
std::string ranks_text(std::span<const Rank> ranks);

/// In the numbers of operations: this one counts the calls of a program, those made of messages
/// included (mesh/message.h), not the operations of the library. Texts do not show it.
inline constexpr uint64_t kCallNumber = uint64_t{1} << 63;

/// The same with spaces where it would drive a terminal: C0, DEL and C1 (UTF-8's U+0080 to U+009F).
std::string printable(std::string text);

/// "35 ms" below a second, else "5.2 s".
std::string span_text(Duration span);

/// "all_reduce" of "all_reduce f32[1000] sum"; "operation" if the text is empty.
std::string_view kind_of_operation(std::string_view operation);

/// "all_reduce #12 on group 0".
std::string operation_text(std::string_view operation, uint64_t sequence, GroupId group);

}  // namespace sumcast::control

// Several algorithms side by side: sizes down, algorithms across, ratio first.
//
// Absolute times vary threefold from machine to machine and day to day; the ratio within one run
// is what carries over (design.md 7), so it stands before the time it was computed from.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "report/bench_rows.h"

namespace sumcast::report {

/// A text table: one line per size (ascending), per algorithm (in order of appearance) one column
/// with "speed against the reference" and the time. Above 1 is faster than `reference`; the
/// reference's own column shows its time only; what was not measured is "-". Rows of one
/// collective, type and wire are expected.
std::string ratio_table(std::span<const BenchRow> rows, std::string_view reference);

}  // namespace sumcast::report

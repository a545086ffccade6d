// What `sumcast plan` says: a table with its advice, or one JSON object.
#pragma once

#include <string>

#include "cli/plan_options.h"

namespace sumcast::cli {

/// The fastest `rows` modes (0: all) with intervals, the break-even of an aggregator's port, and
/// the advice with its reason.
std::string plan_text(const PlanRequest& request, const plan::Advice& advice, size_t rows);

/// {"best": {...}, "reason": ..., "break_even_bits_per_second": ..., "modes": [...]}; times in us.
std::string plan_json(const PlanRequest& request, const plan::Advice& advice);

}  // namespace sumcast::cli

// A daemon's status as people read it: summary, jobs with their groups and ranks, who is waited
// for, threads.
//
// In the manner of ncclras: what is equal is said once ("ranks 0-6 live"), and what stands out is
// named with rank, process and address. A pure function of the daemon's JSON; it does not know
// where that came from.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"

namespace sumcast::cli {

/// @param status  what sumcastd serves at /status.
/// Errors: kInvalidArgument if it is not that.
Result<std::string> status_text(const nlohmann::json& status);

}  // namespace sumcast::cli

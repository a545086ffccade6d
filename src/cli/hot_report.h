// A HotStudy as a page with two curves: how updates gather on few keys, and what samples find.
#pragma once

#include <string>

#include "cli/hot_options.h"
#include "cli/hot_study.h"

namespace sumcast::cli {

/// The whole HTML document.
std::string hot_report(const HotOptions& options, const HotStudy& study);

}  // namespace sumcast::cli

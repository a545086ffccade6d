// A HotStudy for people, for machines, and the placement for an aggregator.
#pragma once

#include <string>

#include "cli/hot_options.h"
#include "cli/hot_study.h"

namespace sumcast::cli {

std::string hot_text(const HotOptions& options, const HotStudy& study);

/// One JSON object, one line.
std::string hot_json(const HotOptions& options, const HotStudy& study);

/// The document of --out: per hot key its slot or slots, the chance that a batch touches it and its
/// expected fan-in. Keys are hexadecimal text, as JSON's numbers end at 2^53.
std::string placement_json(const HotOptions& options, const HotStudy& study);

}  // namespace sumcast::cli

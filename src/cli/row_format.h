// --wire and --row-wire of sparse jobs: how gradients and rows are to travel. Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/element.h"
#include "base/result.h"

namespace sumcast::cli {

/// "fp32", "bf16", "fp16" or "int8". kInvalidArgument: one line that names the flag.
Result<WireFormat> parse_row_format(std::string_view flag, const std::string& value);

}  // namespace sumcast::cli

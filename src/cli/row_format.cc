#include "cli/row_format.h"

#include <fmt/format.h>

#include "numeric/rows.h"

namespace sumcast::cli {

Result<WireFormat> parse_row_format(std::string_view flag, const std::string& value) {
  const auto format = wire_format_from_name(value);
  if (format && numeric::carries_rows(*format)) return *format;
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("{} {}: it must be fp32, bf16, fp16 or int8", flag, value));
}

}  // namespace sumcast::cli

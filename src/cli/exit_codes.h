// What every command of `sumcast` ends with (docs/operations.md, "Exit codes").
#pragma once

#include "base/result.h"

namespace sumcast::cli {

inline constexpr int kExitFailed = 1;  ///< It was tried and did not work, or a sum was wrong.
inline constexpr int kExitUsage = 2;   ///< Words that make no sense, or files that are not there.

inline int exit_code_of(const Error& error) {
  return error.code == ErrorCode::kInvalidArgument ? kExitUsage : kExitFailed;
}

}  // namespace sumcast::cli

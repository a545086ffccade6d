// What the files of the C API share: the handles, and how errors cross. Private to them.
#pragma once

#include <chrono>
#include <exception>
#include <memory>
#include <string>

#include "sumcast/sumcast.h"
#include "sumcast/sumcast.hpp"

struct sumcast_context {
  std::unique_ptr<sumcast::Context> value;
};
struct sumcast_group {
  sumcast::Group value;
};
struct sumcast_work {
  sumcast::Work value;
};

namespace sumcast::c_api {

/// Of this thread.
std::string& last_error();
/// A year at most: more does not fit into nanoseconds, and "for ever" is a legal timeout.
inline std::chrono::milliseconds milliseconds_of(int64_t count) {
  constexpr std::chrono::milliseconds kYear = std::chrono::hours(24 * 365);
  return std::chrono::milliseconds(count < kYear.count() ? count : kYear.count());
}
/// Keeps the text, returns the code.
int report(const Error& error);
Result<Call> convert(const sumcast_call* from);

/// Runs `body`, which returns a Result<void>; keeps what went wrong.
template <typename Body>
int guarded(Body body) noexcept {
  try {
    last_error().clear();
    const Result<void> outcome = body();
    return outcome ? SUMCAST_OK : report(outcome.error());
  } catch (const std::exception& e) {
    return report(Error{ErrorCode::kSystem, e.what()});
  }
}

}  // namespace sumcast::c_api

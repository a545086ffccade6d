// What the files of the C API share: the handles, and how errors cross. Private to them.
#pragma once

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

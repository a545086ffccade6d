// Errors of the environment or the operator: values that say what, where and what to do.
//
// Not for malformed or unexpected datagrams (those are verdicts with counters, see core/) and not
// for our own bugs (see assert.h).
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace sumcast {

/// What kind of thing went wrong. Values are part of the C API (include/sumcast/sumcast.h) and
/// are never renumbered.
enum class ErrorCode : int {
  kInvalidArgument = 1,  ///< A caller's argument, flag, file or configuration key is wrong.
  kUnsupported = 2,      ///< A valid request that this build, type or operation does not offer.
  kUnavailable = 3,      ///< A resource or peer cannot be reached: no route, refused, port taken.
  kTimeout = 4,          ///< A deadline passed; the text names who was missing.
  kMismatch = 5,         ///< Ranks called different operations; the text names both.
  kAborted = 6,          ///< The group was aborted: a member died, left or timed out.
  kDenied = 7,           ///< Wrong key, or a peer that speaks another protocol version.
  kNoSlots = 8,          ///< The aggregator's pool is exhausted.
  kSystem = 9,           ///< A system call failed; the text carries errno's meaning.
  kInternal = 10,        ///< Must not happen; reported rather than asserted at a boundary.
};

/// One line for a person. `what` says what, where and what to do, without a trailing period or
/// newline; contexts are put in front, outermost first.
struct [[nodiscard]] Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string what;

  /// The same error with "`context`: " in front.
  Error within(const std::string& context) const { return Error{code, context + ": " + what}; }
};

template <typename T>
using Result = tl::expected<T, Error>;

/// `return fail(ErrorCode::kTimeout, "rank 3 ...");`
inline tl::unexpected<Error> fail(ErrorCode code, std::string what) {
  return tl::unexpected<Error>(Error{code, std::move(what)});
}
inline tl::unexpected<Error> fail(Error error) { return tl::unexpected<Error>(std::move(error)); }

}  // namespace sumcast

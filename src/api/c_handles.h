// What the files of the C API share: the handles, and how errors cross. Private to them.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <string_view>

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
/// No structure is larger, whatever version wrote it: a wrong `size` shall not have us read for
/// long.
inline constexpr size_t kStructBytesMax = 4096;

/// A structure of a program that may be older or newer: what it does not know is zero, and what we
/// do not know must be. `T` begins with its size.
///
/// @param first_bytes  what it had when it was first published: none is smaller.
template <typename T>
Result<T> known_part(const T* from, size_t first_bytes, std::string_view name) {
  if (from == nullptr || from->size < first_bytes || from->size > kStructBytesMax ||
      from->size % alignof(T) != 0) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{0}: set `size` to sizeof(sumcast_{0})", name));
  }
  const auto* bytes = reinterpret_cast<const unsigned char*>(from);
  for (size_t i = sizeof(T); i < from->size; ++i) {
    if (bytes[i] == 0) continue;
    return fail(ErrorCode::kUnsupported,
                fmt::format("{}: the program asks for something that this library, {}, is too old "
                            "for",
                            name, sumcast_version()));
  }
  T whole{};
  std::memcpy(&whole, from, std::min(from->size, sizeof whole));
  return whole;
}

/// The same in the other direction: fills in what the program has room for.
template <typename T>
void fill_known_part(T* to, T whole) {
  const size_t room = to->size;
  whole.size = room;
  std::memcpy(to, &whole, std::min(room, sizeof whole));
  if (room > sizeof whole) {
    std::memset(reinterpret_cast<unsigned char*>(to) + sizeof whole, 0, room - sizeof whole);
  }
}

/// May a structure that the caller wants filled be written to?
///
/// @param first_bytes  as of known_part().
template <typename T>
Result<void> check_room(const T* to, size_t first_bytes, std::string_view name) {
  if (to != nullptr && to->size >= first_bytes && to->size <= kStructBytesMax) return {};
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("{0}: set `size` to sizeof(sumcast_{0})", name));
}

/// A pointer that must not be NULL.
inline Result<void> require(const void* pointer, std::string_view name) {
  if (pointer != nullptr) return {};
  return fail(ErrorCode::kInvalidArgument, fmt::format("{} is NULL", name));
}

/// Keeps the text, returns the code.
int report(const Error& error);
Result<Call> convert(const sumcast_call* from);
Result<Options> convert(const sumcast_options* from);

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

// Texts one by one: the lines of a file, or the descriptions of packages.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace sumcast::dataset {

struct Text {
  std::string_view words;  ///< Valid during the call.
  uint64_t group = 0;      ///< As Sample::group: by source package, or the line's number.
};

/// Reads `source`, "debian-packages" or a file, plain or gzip'ed, to its end. Errors: what reading
/// may say.
Result<void> for_each_text(const std::string& source, const std::function<void(const Text&)>& use);

}  // namespace sumcast::dataset

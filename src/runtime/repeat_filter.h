// Decides which of many equal log messages are shown, so that a fault that repeats a thousand
// times a second does not bury the line that explains it.
//
// The first few of a text within a second pass; the others are counted, and the count is told
// once the second is over. It does not know files or formats. Bounded: it follows the texts seen
// last, and a text that it has forgotten counts as new.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"

namespace sumcast::runtime {

class RepeatFilter {
 public:
  static constexpr uint32_t kShownPerWindow = 5;
  static constexpr Duration kWindow = 1s;
  static constexpr size_t kTextsMax = 32;

  /// Texts that were held back, and how often, since their window began.
  struct Summary {
    std::string text;
    uint64_t hidden = 0;
  };

  /// True if `text` should be shown now.
  bool admit(std::string_view text, Instant now);

  /// One text whose window is over and which was held back, if there is any; then forgotten.
  /// Called until it returns nothing, before `admit`.
  std::optional<Summary> expire(Instant now);

 private:
  struct Entry {
    std::string text;
    Instant began;  // Unset: free.
    uint64_t seen = 0;
  };

  Entry& entry_for(std::string_view text, Instant now);

  std::array<Entry, kTextsMax> entries_;
};

}  // namespace sumcast::runtime

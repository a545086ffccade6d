#include "runtime/repeat_filter.h"

#include <algorithm>

namespace sumcast::runtime {

RepeatFilter::Entry& RepeatFilter::entry_for(std::string_view text, Instant now) {
  Entry* oldest = &entries_.front();
  for (Entry& entry : entries_) {
    if (entry.began.is_set() && entry.text == text) return entry;
    if (entry.began < oldest->began) oldest = &entry;
  }
  *oldest = Entry{std::string(text), now, 0};
  return *oldest;
}

bool RepeatFilter::admit(std::string_view text, Instant now) {
  Entry& entry = entry_for(text, now);
  if (now - entry.began >= kWindow) entry = Entry{std::string(text), now, 0};
  return ++entry.seen <= kShownPerWindow;
}

std::optional<RepeatFilter::Summary> RepeatFilter::expire(Instant now) {
  for (Entry& entry : entries_) {
    if (!entry.began.is_set() || now - entry.began < kWindow) continue;
    Entry over = std::move(entry);
    entry = Entry{};
    if (over.seen > kShownPerWindow) return Summary{over.text, over.seen - kShownPerWindow};
  }
  return std::nullopt;
}

}  // namespace sumcast::runtime

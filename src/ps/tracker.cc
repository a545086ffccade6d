#include "ps/tracker.h"

#include <fmt/format.h>

#include <algorithm>

namespace sumcast::ps {
namespace {

constexpr uint64_t kNumbers = uint64_t{1} << 31;

}  // namespace

int Tracker::open(int expected, int group, const std::vector<int>& asked) {
  while (queue_.size() > kKept &&
         (queue_.front().got >= queue_.front().expected || failed_.count(base_) != 0)) {
    queue_.pop_front();
    ++base_;
  }
  queue_.push_back({expected, 0, group, asked});
  return static_cast<int>((next() - 1) % kNumbers);
}

uint64_t Tracker::unwrap(int timestamp) const {
  const uint64_t end = next();
  const uint64_t low = static_cast<uint64_t>(timestamp) % kNumbers;
  const uint64_t back = (end - low) % kNumbers;  // How far behind `end`, 0 meaning a whole turn.
  const uint64_t distance = back == 0 ? kNumbers : back;
  return distance <= end ? end - distance : UINT64_MAX;
}

const Tracker::Entry* Tracker::find(int timestamp) const {
  const uint64_t index = unwrap(timestamp);
  if (index == UINT64_MAX || index < base_) return nullptr;
  return &queue_[static_cast<size_t>(index - base_)];
}

bool Tracker::needs(const Entry& entry, int node) {
  return entry.asked.empty() ||
         std::find(entry.asked.begin(), entry.asked.end(), node) != entry.asked.end();
}

bool Tracker::add(int timestamp, int responses) {
  auto* const entry = const_cast<Entry*>(find(timestamp));
  if (entry == nullptr || entry->got >= entry->expected) return false;
  entry->got = std::min(entry->expected, entry->got + responses);
  return entry->got == entry->expected;
}

int Tracker::responses(int timestamp) const {
  const Entry* const entry = find(timestamp);
  return entry != nullptr ? entry->got : 0;
}

bool Tracker::is_done(int timestamp) const {
  const Entry* const entry = find(timestamp);
  return entry == nullptr || entry->got >= entry->expected;
}

void Tracker::fail(int timestamp, const std::string& why) {
  const uint64_t index = unwrap(timestamp);
  if (index != UINT64_MAX) failed_.try_emplace(index, why);
}

const std::string* Tracker::failure(int timestamp) const {
  if (failed_.empty()) return nullptr;
  const auto it = failed_.find(unwrap(timestamp));
  return it != failed_.end() ? &it->second : nullptr;
}

std::string Tracker::progress_text(int timestamp) const {
  const Entry* const entry = find(timestamp);
  return entry == nullptr ? "all" : fmt::format("{} of {}", entry->got, entry->expected);
}

int Tracker::group(int timestamp) const {
  const Entry* const entry = find(timestamp);
  return entry != nullptr ? entry->group : 0;
}

}  // namespace sumcast::ps

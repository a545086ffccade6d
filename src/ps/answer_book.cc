#include "ps/answer_book.h"

#include <limits>
#include <utility>

namespace sumcast::ps {

int AnswerBook::open(const Name& name) {
  const int number = next_;
  next_ = next_ == std::numeric_limits<int>::min() ? -1 : next_ - 1;
  entries_[number].name = name;
  numbers_[name] = number;
  return number;
}

/// Forgets a request that has its answer.
AnswerBook::Answer AnswerBook::take(int number) {
  const auto it = entries_.find(number);
  const auto [worker, server, id] = it->second.name;
  Answer answer{{server, worker}, std::move(*it->second.answer)};
  answer.message.meta.timestamp = id.timestamp;
  numbers_.erase(it->second.name);
  entries_.erase(it);
  return answer;
}

std::optional<int> AnswerBook::on_logged(Origin origin, const ::ps::Meta& meta) {
  const Name name{origin.worker, origin.server, id_of(meta)};
  if (numbers_.count(name) != 0) return std::nullopt;
  const int number = open(name);
  entries_[number].settled = lost_.count(origin.worker) != 0;
  return number;
}

AnswerBook::Asked AnswerBook::on_asked(Origin origin, const ::ps::Meta& meta) {
  const Name name{origin.worker, origin.server, id_of(meta)};
  Asked asked;
  if (lost_.count(origin.worker) != 0) return asked;
  const auto it = numbers_.find(name);
  const int number = it != numbers_.end() ? it->second : open(name);
  if (it == numbers_.end()) asked.handle_as = number;
  entries_[number].asked = true;
  if (entries_[number].answer) asked.answer = take(number);
  return asked;
}

std::optional<int> AnswerBook::number_of(Origin origin, const RequestId& id) const {
  const auto it = numbers_.find(Name{origin.worker, origin.server, id});
  if (it == numbers_.end()) return std::nullopt;
  return it->second;
}

std::optional<std::pair<AnswerBook::Origin, RequestId>> AnswerBook::whose(int number) const {
  const auto it = entries_.find(number);
  if (it == entries_.end()) return std::nullopt;
  const Name& name = it->second.name;
  return std::pair(Origin{name.server, name.worker}, name.id);
}

std::optional<AnswerBook::Answer> AnswerBook::on_response(const ::ps::Message& response) {
  const int number = response.meta.timestamp;
  const auto it = entries_.find(number);
  if (it == entries_.end() || it->second.answer) return std::nullopt;
  if (it->second.settled) {
    numbers_.erase(it->second.name);
    entries_.erase(it);
    return std::nullopt;
  }
  it->second.answer = response;
  if (!it->second.asked) return std::nullopt;
  return take(number);
}

void AnswerBook::on_settled(Origin origin, const std::vector<RequestId>& ids) {
  for (const RequestId& id : ids) {
    const auto it = numbers_.find(Name{origin.worker, origin.server, id});
    if (it == numbers_.end()) continue;
    Entry& entry = entries_[it->second];
    if (id.customer == kHarvester && !entry.answer) {
      entry.settled = true;
      continue;
    }
    entries_.erase(it->second);
    numbers_.erase(it);
  }
}

void AnswerBook::on_worker_lost(int worker) {
  lost_.insert(worker);
  std::erase_if(entries_, [&](const auto& entry) {
    const Name& name = entry.second.name;
    // What it summed for others stays known: it may still be under way from it, and is not to count
    // again; and whoever sends its own part of it anew is told when it has been handled.
    if (name.worker != worker || name.id.customer == kHarvester) return false;
    numbers_.erase(name);
    return true;
  });
}

void AnswerBook::clear() {
  entries_.clear();
  numbers_.clear();
  lost_.clear();
}

}  // namespace sumcast::ps

#include "sparse/scout.h"

#include <fmt/format.h>

#include "net/tcp.h"
#include "runtime/clock.h"
#include "runtime/log.h"
#include "sparse/frames.h"

namespace sumcast::sparse {
namespace {

using runtime::Subsystem;

/// For a connection to somebody who may be there.
constexpr Duration kLookPatience = 1s;
/// Until all members have joined, or given up: longer than a join and what it waits for in the end.
constexpr Duration kVotePatience = 20s;
/// A word waits for its time, however long the job stays where it is.
constexpr std::chrono::nanoseconds kEarPatience = std::chrono::hours(24 * 365);

void leave(Found found, const std::string& why) {
  if (found.team) found.team->abort(why);
  found.context->world().abort(why);  // The others need not wait for this member.
}

}  // namespace

Scout::Scout(ScoutSetup setup) : setup_(std::move(setup)), pace_(setup_.first_hold_off) {}

Scout::~Scout() { stop(); }

void Scout::begin(Group world, size_t at, uint32_t serial, bool is_return) {
  const std::lock_guard lock(mutex_);
  if (is_stopping_) return;
  away_ = Stay{++stay_, std::move(world), at, serial};
  const Instant now = runtime::monotonic_now();
  is_return ? pace_.on_better(now) : pace_.on_away(now);
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  changed_.notify_all();
}

void Scout::rest() {
  const std::lock_guard lock(mutex_);
  pace_.on_return(runtime::monotonic_now());
}

std::optional<Found> Scout::take() {
  const std::lock_guard lock(mutex_);
  ++stay_;
  away_.reset();
  is_ready_.store(false, std::memory_order_release);
  changed_.notify_all();
  return std::exchange(kept_, std::nullopt);
}

void Scout::bury(Found found) {
  const std::lock_guard lock(mutex_);
  graves_.push_back(std::move(found));
  changed_.notify_all();
}

void Scout::end(const std::string& reason) {
  std::optional<Found> found;
  {
    const std::lock_guard lock(mutex_);
    found = kept_;
  }
  if (found) leave(std::move(*found), reason);
}

void Scout::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    ++stay_;
    away_.reset();
    is_ready_.store(false, std::memory_order_release);
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  graves_.clear();
  for (const auto& [whose, ear] : ears_) {  // Nothing is received any more.
    if (ear->work) (void)ear->work->wait(0ns);
  }
  ears_.clear();
  if (kept_) leave(*std::exchange(kept_, std::nullopt), "this member goes on elsewhere");
}

void Scout::run() {
  std::unique_lock lock(mutex_);
  uint64_t done = 0;  // The stay that was seen to the end.
  for (;;) {
    changed_.wait(
        lock, [&] { return is_stopping_ || !graves_.empty() || (away_ && away_->number != done); });
    if (is_stopping_) return;
    auto graves = std::exchange(graves_, {});
    const std::optional<Stay> stay = away_;
    lock.unlock();
    graves.clear();
    if (stay && stay->number != done) {
      forget_ears(*stay);
      setup_.rank == 0 ? lead(*stay) : follow(*stay);
      done = stay->number;
    }
    lock.lock();
  }
}

bool Scout::lasts(const Stay& stay) const {
  const std::lock_guard lock(mutex_);
  return stay_ == stay.number;
}

/// @return true: the stay is over.
bool Scout::wait_for_end(const Stay& stay, Instant until) {
  std::unique_lock lock(mutex_);
  const auto is_over = [&] { return stay_ != stay.number; };
  if (until == Instant::never()) {
    changed_.wait(lock, is_over);
    return true;
  }
  return changed_.wait_for(lock, until - runtime::monotonic_now(), is_over);
}

/// Rank 0.
void Scout::lead(const Stay& stay) {
  size_t first = 0;  // Who has refused is passed over until the others have been asked.
  for (;;) {
    Instant next;
    {
      const std::lock_guard lock(mutex_);
      next = pace_.next_look();
    }
    if (wait_for_end(stay, next)) return;
    const auto place = look(stay, first);
    if (place && attempt(stay, *place)) {
      wait_for_end(stay, Instant::never());
      return;
    }
    const std::lock_guard lock(mutex_);
    if (stay_ != stay.number) return;
    const Instant now = runtime::monotonic_now();
    place ? pace_.on_refusal(now) : pace_.on_silence(now);
    first = place ? *place + 1 : 0;
  }
}

/// The best place, from `first` on, where somebody accepts connections.
std::optional<size_t> Scout::look(const Stay& stay, size_t first) {
  for (size_t place = first; place < stay.at; ++place) {
    if (setup_.addresses[place].empty()) continue;
    const auto where = net::parse_endpoint(setup_.addresses[place]);
    if (!where) continue;  // A name that cannot be resolved just now.
    if (net::connect_tcp(*where, std::nullopt, runtime::monotonic_now() + kLookPatience)) {
      return place;
    }
  }
  return std::nullopt;
}

/// @return all members have joined there; or the stay is over, or about to be.
bool Scout::attempt(const Stay& stay, size_t place) {
  Word word{Kind::kJoin, ++attempts_, static_cast<uint32_t>(place), 0};
  runtime::log_info(Subsystem::kControl, "{} answers again: all members try to join it",
                    setup_.addresses[place]);
  if (!tell_all(stay, word)) return false;
  bool all = join_and_keep(stay, place, word.attempt);
  const Instant until = runtime::monotonic_now() + kVotePatience;
  for (uint32_t peer = 1; peer < setup_.members; ++peer) {
    const auto vote = hear_of(stay, peer, Kind::kVote, word.attempt, until);
    all = all && vote && vote->yes != 0;
  }
  word.kind = Kind::kVerdict;
  word.yes = all ? 1 : 0;
  const auto told = tell_all(stay, word);
  if (!all) {
    drop(stay);
    return false;
  }
  const std::lock_guard lock(mutex_);
  if (told && stay_ == stay.number) is_ready_.store(true, std::memory_order_release);
  return true;
}

/// All others.
void Scout::follow(const Stay& stay) {
  for (;;) {
    auto heard = hear(stay, 0, Instant::never());
    if (!heard) wait_for_end(stay, Instant::never());  // The context has failed: so will a call.
    if (!heard || !*heard) return;
    const Word word = **heard;
    const bool is_fresh = word.kind == Kind::kJoin && word.attempt > attempts_;
    if (!is_fresh || word.place >= stay.at) continue;
    attempts_ = word.attempt;
    const bool in = join_and_keep(stay, word.place, word.attempt);
    const Word vote{Kind::kVote, word.attempt, word.place, in ? 1u : 0u};
    if (!tell(stay, 0, vote) || !in) continue;
    const auto verdict = hear_of(stay, 0, Kind::kVerdict, word.attempt, Instant::never());
    if (verdict && verdict->yes == 0) drop(stay);
  }
}

/// @return true: this member is in, and stays until the verdict.
bool Scout::join_and_keep(const Stay& stay, size_t place, uint32_t attempt) {
  auto found = setup_.join(place, attempt);
  if (!found) {
    runtime::log_info(Subsystem::kControl, "not back yet: {}", found.error().what);
    return false;
  }
  {
    const std::lock_guard lock(mutex_);
    if (stay_ == stay.number) {
      kept_ = std::move(*found);
      return true;
    }
  }
  leave(std::move(*found), "this member goes on elsewhere");
  return false;
}

/// Not all are in.
void Scout::drop(const Stay& stay) {
  std::optional<Found> found;
  {
    const std::lock_guard lock(mutex_);
    if (stay_ == stay.number) found = std::exchange(kept_, std::nullopt);
  }
  if (found) leave(std::move(*found), "not all members could join");
}

/// The peer's next word. Nothing: the stay or the time is over. An error: so is the context.
Result<std::optional<Scout::Word>> Scout::hear(const Stay& stay, uint32_t peer, Instant until) {
  std::unique_ptr<Ear>& ear = ears_[{stay.serial, peer}];
  if (!ear) ear = std::make_unique<Ear>();
  if (!ear->work) {
    const Message message{&ear->word, sizeof(Word), peer, kScoutTag, 0};
    Call call;
    call.timeout = kEarPatience;
    Group world = stay.world;
    auto work = world.exchange_async({}, std::span(&message, 1), call, [this] {
      const std::lock_guard lock(mutex_);
      changed_.notify_all();
    });
    if (!work) return fail(work.error());
    ear->work = std::move(*work);
  }
  {
    std::unique_lock lock(mutex_);
    const auto is_over = [&] { return stay_ != stay.number || ear->work->is_done(); };
    if (until == Instant::never()) {
      changed_.wait(lock, is_over);
    } else {
      changed_.wait_for(lock, until - runtime::monotonic_now(), is_over);
    }
    if (stay_ != stay.number || !ear->work->is_done()) return std::optional<Word>();
  }
  const auto done = ear->work->wait();
  ear->work.reset();
  if (!done) return fail(done.error());
  return std::optional(ear->word);
}

/// Words of attempts before are passed over.
std::optional<Scout::Word> Scout::hear_of(const Stay& stay, uint32_t peer, Kind kind,
                                          uint32_t attempt, Instant until) {
  for (;;) {
    auto heard = hear(stay, peer, until);
    if (!heard || !*heard) return std::nullopt;
    if ((*heard)->kind == kind && (*heard)->attempt == attempt) return *heard;
  }
}

Result<void> Scout::tell(const Stay& stay, uint32_t peer, const Word& word) {
  Word copy = word;
  const Message message{&copy, sizeof copy, peer, kScoutTag, 0};
  Group world = stay.world;
  return world.exchange(std::span(&message, 1), {});
}

Result<void> Scout::tell_all(const Stay& stay, const Word& word) {
  Word copy = word;
  std::vector<Message> messages;
  for (uint32_t peer = 1; peer < setup_.members; ++peer) {
    messages.push_back({&copy, sizeof copy, peer, kScoutTag, 0});
  }
  Group world = stay.world;
  return world.exchange(messages, {});
}

/// Of contexts that have failed.
void Scout::forget_ears(const Stay& stay) {
  std::erase_if(ears_, [&](const auto& one) {
    const bool is_quiet = !one.second->work || one.second->work->is_done();
    return one.first.first != stay.serial && is_quiet;
  });
}

}  // namespace sumcast::sparse

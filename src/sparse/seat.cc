#include "sparse/seat.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <thread>
#include <utility>

#include "auth/secret.h"
#include "runtime/clock.h"
#include "runtime/log.h"

namespace sumcast::sparse {
namespace {

using runtime::Subsystem;

/// A daemon that is not there must not keep the job from beginning.
constexpr std::chrono::nanoseconds kStandbyPatience = std::chrono::seconds(5);
/// From the first sign of a failure until this rank's own connection shows what it was.
constexpr Duration kLossPatience = std::chrono::seconds(2);
constexpr Duration kLookInterval = std::chrono::milliseconds(5);

std::vector<std::string> split_addresses(const std::string& list) {
  std::vector<std::string> all;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    if (end > begin) all.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return all;
}

}  // namespace

Seat::Seat(const sumcast::Options& options) : options_(options) { options_.on_listening = nullptr; }

Seat::~Seat() {
  if (scout_) scout_->stop();
  if (options_.key) auth::wipe(*options_.key);
}

Result<std::unique_ptr<Seat>> Seat::join(const sumcast::Options& options, bool standby) {
  std::unique_ptr<Seat> seat(new Seat(options));
  const std::vector<std::string> daemons = split_addresses(options.aggregator);
  auto first = Context::create(options);
  if (!first) return fail(first.error());
  Place place;
  if (!daemons.empty()) place.address = daemons.front();
  place.name = daemons.empty() ? "the ranks themselves" : "sumcastd at " + place.address;
  place.context = std::move(*first);
  seat->places_.push_back(std::move(place));
  if (!standby || daemons.empty()) return seat;
  for (size_t i = 1; i < daemons.size(); ++i) {
    if (auto added = seat->add_daemon(daemons[i]); !added) return fail(added.error());
  }
  if (auto added = seat->add_direct(); !added) return fail(added.error());
  seat->serials_ = static_cast<uint32_t>(seat->places_.size());
  if (options.return_after <= 0ns || !seat->has_standby()) return seat;
  ScoutSetup setup;
  setup.rank = options.rank, setup.members = options.world;
  setup.first_hold_off = options.return_after;
  for (const Place& one : seat->places_) setup.addresses.push_back(one.address);
  setup.join = [of = seat.get()](size_t at, uint32_t attempt) {
    return of->join_again(at, attempt);
  };
  seat->scout_ = std::make_unique<Scout>(std::move(setup));
  return seat;
}

/// All or none: a context that some members lack would divide the job when it is needed.
Result<void> Seat::keep_if_all_have(Result<std::unique_ptr<Context>> joined, const Place& place) {
  std::array<float, 1> have = {joined ? 1.0f : 0.0f};
  auto agreed =
      places_.front().context->world().all_reduce(std::span<float>(have), Reduction::kMin);
  if (!agreed) return agreed;
  if (have[0] == 1.0f) {
    Place kept = place;
    kept.serial = static_cast<uint32_t>(places_.size());
    kept.context = std::move(*joined);
    places_.push_back(std::move(kept));
    return {};
  }
  runtime::log_warn(Subsystem::kControl,
                    "no standby at {}: {}; if the aggregator goes away, that is no help",
                    place.name, joined ? "another rank could not join it" : joined.error().what);
  return {};
}

Result<void> Seat::add_daemon(const std::string& address) {
  sumcast::Options options = options_;
  options.aggregator = address;
  options.job += fmt::format(" standby {}", places_.size());
  options.join_timeout = std::min(options.join_timeout, kStandbyPatience);
  return keep_if_all_have(Context::create(options), {"sumcastd at " + address, address});
}

/// Rank 0 listens at the address that it has in the first context; the others hear there of it.
Result<void> Seat::add_direct() {
  sumcast::Options options = options_;
  Group& world = places_.front().context->world();
  std::array<char, 128> text{};
  bool told = false;
  Result<void> telling;
  const auto tell = [&](const std::string& address) {
    std::memcpy(text.data(), address.data(), std::min(address.size(), text.size() - 1));
    telling = world.broadcast(text.data(), text.size(), ElementType::kU8, 0);
    told = true;
  };
  const Place place{"the ranks themselves", ""};
  options.aggregator.clear();
  options.algorithm = Algorithm::kDirect;
  options.job += " standby direct";
  options.join_timeout = std::min(options.join_timeout, kStandbyPatience);
  if (options.rank == 0) {
    options.coordinator = places_.front().context->address();
    options.on_listening = tell;
    auto joined = Context::create(options);
    if (!told) tell("");  // The others wait for it.
    if (!telling) return telling;
    return keep_if_all_have(std::move(joined), place);
  }
  tell("");
  if (!telling) return telling;
  text.back() = '\0';
  options.coordinator = text.data();
  if (options.coordinator.empty()) {
    return keep_if_all_have(fail(ErrorCode::kUnavailable, "rank 0 could not listen for it"), place);
  }
  return keep_if_all_have(Context::create(options), place);
}

Result<void> Seat::open_team(std::span<const uint32_t> ranks, const std::string& key) {
  team_ranks_.assign(ranks.begin(), ranks.end());
  team_key_ = key;
  for (Place& place : places_) {
    auto team = open_team_in(*place.context);
    if (!team) return fail(team.error());
    const std::lock_guard lock(mutex_);
    place.team = std::move(*team);
  }
  return {};
}

Result<Group> Seat::open_team_in(Context& context) const {
  return context.new_group(team_ranks_, team_key_);
}

bool Seat::is_lost(const Error& error) const {
  if (!is_confirmed_.load(std::memory_order_relaxed)) return true;
  if (context().lost()) return true;
  const bool may_be = error.code == ErrorCode::kAborted || error.code == ErrorCode::kUnavailable ||
                      error.code == ErrorCode::kTimeout;
  if (!may_be || !has_standby()) return false;
  const Instant patience = runtime::monotonic_now() + kLossPatience;
  while (!context().lost()) {
    if (runtime::monotonic_now() >= patience) return false;
    std::this_thread::sleep_for(kLookInterval);
  }
  return true;
}

void Seat::end(const std::string& reason) const {
  std::vector<Group> groups;
  {
    const std::lock_guard lock(mutex_);
    for (const Place& place : places_) {
      groups.push_back(place.context->world());
      if (place.team) groups.push_back(*place.team);
    }
  }
  for (Group& group : groups) group.abort(reason);
  if (scout_) scout_->end(reason);
}

/// P23: what all may have voted for comes before the next place.
Result<void> Seat::move_on(const Error& error, const std::string& where) {
  if (!is_lost(error)) return fail(error);
  const std::string why = context().lost().value_or(error).what;
  auto found = scout_ ? scout_->take() : std::nullopt;
  if (!found && !has_standby()) return fail(error.code, why);
  reasons_.push_back(why);
  failovers_.fetch_add(1, std::memory_order_relaxed);
  const bool by_vote = found.has_value();
  if (found) {
    adopt(std::move(*found));
  } else {
    ++at_;
  }
  // A place that failed before all were there, and was fenced off, is not confirmed either.
  is_confirmed_.store(!by_vote && !context().world().aborted(), std::memory_order_relaxed);
  settle(fmt::format("{}; going on with {}, {}", why, place(), where), by_vote);
  return {};
}

bool Seat::is_return_ready() const { return scout_ && scout_->is_ready(); }

bool Seat::go_back(const std::string& where) {
  auto found = scout_ ? scout_->take() : std::nullopt;
  if (!found) {
    if (scout_ && at_ != 0) scout_->begin(context().world(), at_, places_[at_].serial, false);
    return false;
  }
  is_confirmed_.store(false, std::memory_order_relaxed);
  adopt(std::move(*found));
  settle(fmt::format("back with {}, {}", place(), where), true);
  return true;
}

/// On the scout's thread.
Result<Found> Seat::join_again(size_t place, uint32_t attempt) const {
  sumcast::Options options = options_;
  options.aggregator = places_[place].address;
  options.job += fmt::format(" return {}", attempt);
  options.join_timeout = std::min(options.join_timeout, kStandbyPatience);
  auto joined = Context::create(options);
  if (!joined) return fail(joined.error());
  Found found{place, std::move(*joined)};
  if (std::ranges::find(team_ranks_, options.rank) == team_ranks_.end()) return found;
  auto team = open_team_in(*found.context);
  if (!team) {
    found.context->world().abort(team.error().what);  // The others need not wait for this member.
    return fail(team.error());
  }
  found.team = std::move(*team);
  return found;
}

void Seat::adopt(Found found) {
  Place& place = places_[found.place];
  const std::lock_guard lock(mutex_);
  scout_->bury({found.place, std::exchange(place.context, std::move(found.context)),
                std::exchange(place.team, std::move(found.team))});
  place.serial = serials_++;
  at_ = found.place;
  returns_.fetch_add(1, std::memory_order_relaxed);
}

/// At the new place: tells people, and looks for a better one.
void Seat::settle(const std::string& what, bool is_return) {
  runtime::log_warn(Subsystem::kControl, "rank {}: {}", context().rank(), what);
  context().note_moves(failovers(), returns());
  if (!scout_) return;
  if (at_ == 0) {
    scout_->rest();
  } else {
    scout_->begin(context().world(), at_, places_[at_].serial, is_return);
  }
}

}  // namespace sumcast::sparse

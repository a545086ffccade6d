#include "sparse/seat.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <thread>

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

Result<std::unique_ptr<Seat>> Seat::join(const sumcast::Options& options, bool standby) {
  std::unique_ptr<Seat> seat(new Seat());
  const std::vector<std::string> daemons = split_addresses(options.aggregator);
  auto first = Context::create(options);
  if (!first) return fail(first.error());
  seat->contexts_.push_back(std::move(*first));
  seat->places_.push_back(daemons.empty() ? "the ranks themselves"
                                          : fmt::format("sumcastd at {}", daemons.front()));
  if (!standby || daemons.empty()) return seat;
  for (size_t i = 1; i < daemons.size(); ++i) {
    if (auto added = seat->add_daemon(options, daemons[i]); !added) return fail(added.error());
  }
  if (auto added = seat->add_direct(options); !added) return fail(added.error());
  return seat;
}

/// All or none: a context that some members lack would divide the job when it is needed.
Result<void> Seat::keep_if_all_have(Result<std::unique_ptr<Context>> joined,
                                    const std::string& place) {
  std::array<float, 1> have = {joined ? 1.0f : 0.0f};
  auto agreed = contexts_.front()->world().all_reduce(std::span<float>(have), Reduction::kMin);
  if (!agreed) return agreed;
  if (have[0] == 1.0f) {
    contexts_.push_back(std::move(*joined));
    places_.push_back(place);
    return {};
  }
  runtime::log_warn(Subsystem::kControl,
                    "no standby at {}: {}; if the aggregator goes away, that is no help", place,
                    joined ? "another rank could not join it" : joined.error().what);
  return {};
}

Result<void> Seat::add_daemon(sumcast::Options options, const std::string& address) {
  options.aggregator = address;
  options.job += fmt::format(" standby {}", contexts_.size());
  options.join_timeout = std::min(options.join_timeout, kStandbyPatience);
  return keep_if_all_have(Context::create(options), fmt::format("sumcastd at {}", address));
}

/// Rank 0 listens at the address that it has in the first context; the others hear there of it.
Result<void> Seat::add_direct(sumcast::Options options) {
  Group& world = contexts_.front()->world();
  std::array<char, 128> text{};
  bool told = false;
  Result<void> telling;
  const auto tell = [&](const std::string& address) {
    std::memcpy(text.data(), address.data(), std::min(address.size(), text.size() - 1));
    telling = world.broadcast(text.data(), text.size(), ElementType::kU8, 0);
    told = true;
  };
  options.aggregator.clear();
  options.algorithm = Algorithm::kDirect;
  options.job += " standby direct";
  options.join_timeout = std::min(options.join_timeout, kStandbyPatience);
  if (options.rank == 0) {
    options.coordinator = contexts_.front()->address();
    options.on_listening = tell;
    auto joined = Context::create(options);
    if (!told) tell("");  // The others wait for it.
    if (!telling) return telling;
    return keep_if_all_have(std::move(joined), "the ranks themselves");
  }
  tell("");
  if (!telling) return telling;
  options.on_listening = nullptr;
  text.back() = '\0';
  options.coordinator = text.data();
  if (options.coordinator.empty()) {
    return keep_if_all_have(fail(ErrorCode::kUnavailable, "rank 0 could not listen for it"),
                            "the ranks themselves");
  }
  return keep_if_all_have(Context::create(options), "the ranks themselves");
}

bool Seat::is_lost(const Error& error) const {
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
  for (size_t i = at_; i < contexts_.size(); ++i) contexts_[i]->world().abort(reason);
}

Result<void> Seat::move_on(const Error& error, const std::string& where) {
  if (!is_lost(error)) return fail(error);
  const std::string why = context().lost().value_or(error).what;
  if (!has_standby()) return fail(error.code, why);
  ++at_;
  reasons_.push_back(why);
  runtime::log_warn(Subsystem::kControl, "rank {}: {}; going on with {}, {}", context().rank(), why,
                    place(), where);
  return {};
}

}  // namespace sumcast::sparse

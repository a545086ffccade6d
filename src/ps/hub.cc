// Start and stop.
#include "ps/hub.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "auth/key_file.h"
#include "ps/customer_core.h"
#include "ps/internal/env.h"
#include "ps/internal/postoffice.h"
#include "runtime/log.h"

namespace sumcast::ps {
namespace {

using runtime::Subsystem;

constexpr Duration kNoticeEvery = 10s;
constexpr Duration kFarewell = 2s;  ///< For what is queued at the end, and for peers to close.
constexpr Duration kLossyFarewell = 10s;  ///< The same where frames are lost and repeated.

}  // namespace

Hub& Hub::get() {
  // Never destroyed: customers and arrays of the program may outlive main.
  static Hub* const hub = new Hub;
  return *hub;
}

Hub::Hub() = default;

Result<void> Hub::start(int customer_id) {
  {
    const std::lock_guard lock(start_mutex_);
    if (!is_started()) {
      if (auto opened = open(customer_id); !opened) {
        close_all();
        return opened;
      }
      started_.store(true, std::memory_order_release);
    }
  }
  const Instant deadline = settings_.start_timeout > Duration{0}
                               ? net::monotonic_now() + settings_.start_timeout
                               : Instant::never();
  if (settings_.role != ::ps::Node::SCHEDULER) {
    ControlMessage add;
    add.kind = "add";
    add.customer = customer_id;
    add.replicas = settings_.replicas ? 1 : 0;
    add.merging = merging();
    const KeyWishes wishes = key_wishes();
    add.partition = to_number(wishes.set);
    add.asks = wishes.asks ? 1 : 0;
    add.nodes.push_back(my_node_);
    add.nodes.back().customer_id = customer_id;
    if (const LinkPtr scheduler = link_to(::ps::kScheduler)) say(scheduler, add);
  }
  if (auto all_here = await_roster(deadline); !all_here) return all_here;
  const std::lock_guard lock(start_mutex_);
  if (!connected_ && settings_.role == ::ps::Node::WORKER) {
    if (auto connected = connect_servers(deadline); !connected) return connected;
    if (merge_.on) {
      if (auto connected = connect_workers(deadline); !connected) return connected;
    }
  }
  if (!connected_ && settings_.role == ::ps::Node::SERVER && settings_.replicas) {
    if (auto connected = connect_backup(deadline); !connected) return connected;
  }
  connected_ = true;
  ready_.store(true, std::memory_order_release);
  PS_VLOG(1) << my_node_.ShortDebugString() << " is connected to others";
  return {};
}

/// The first customer's part: settings, sockets, threads, and the way to the scheduler.
Result<void> Hub::open(int customer_id) {
  auto settings =
      read_settings([](const char* name) { return ::ps::Environment::Get()->find(name); });
  if (!settings) return fail(settings.error());
  settings_ = std::move(*settings);
  runtime::LogOptions log;
  const auto variable = [](const char* name, std::string& into) {
    if (const char* const value = ::ps::Environment::Get()->find(name)) into = value;
  };
  variable("SUMCAST_DEBUG", log.level);
  variable("SUMCAST_DEBUG_SUBSYS", log.subsystems);
  variable("SUMCAST_DEBUG_FILE", log.file);
  if (auto configured = runtime::configure_log(log); !configured) return configured;
  key_.reset();
  if (!settings_.key_file.empty()) {
    auto key = auth::read_key_file(settings_.key_file);
    if (!key) return fail(key.error().within("SUMCAST_KEY_FILE"));
    key_ = *key;
  }
  num_workers_ = settings_.num_workers;
  num_servers_ = settings_.num_servers;
  epoch_ = auth::random_u64();
  stopping_ = false;
  ending_ = false;
  {
    const std::lock_guard lock(state_mutex_);
    members_.clear();
    for (int group = 1; group < 8; ++group) {
      members_[group] = group_members(group, settings_.num_servers, settings_.num_workers);
    }
    roster_.reset();
    key_plan_ = {};
    partition_ = ::ps::Partition::kRanges;
    if (settings_.role == ::ps::Node::SCHEDULER) {
      roster_.emplace(settings_.num_servers, settings_.num_workers);
      (void)key_plan_.add("the scheduler", key_wishes());  // The first contradicts nobody.
      complete_ = settings_.num_servers + settings_.num_workers == 0;
    }
  }
  if (!settings_.ignored.empty()) {
    runtime::log_warn(Subsystem::kInit, "ps: set, but without meaning here: {} (docs/ps-lite.md)",
                      fmt::join(settings_.ignored, ", "));
  }
  start_replica();
  start_merge();
  my_node_ = {};
  my_node_.role = settings_.role;
  my_node_.customer_id = customer_id;
  if (auto opened = open_sockets(); !opened) return opened;
  if (settings_.drop > 0) {
    drops_.emplace(settings_.drop_seed * 1000003 + static_cast<uint64_t>(my_node_.port));
  }
  size_t customers = 0;
  {
    const std::shared_lock lock(links_mutex_);
    customers = cores_.size();
  }
  crew_.start(customers + 1);
  if (settings_.role == ::ps::Node::SCHEDULER) {
    if (!key_) {
      runtime::log_warn(Subsystem::kAuth,
                        "ps: connections of this job are neither authenticated nor sealed; set "
                        "SUMCAST_KEY_FILE for all of its processes to change that");
    }
    return {};
  }
  return connect_scheduler(settings_.start_timeout > Duration{0}
                               ? net::monotonic_now() + settings_.start_timeout
                               : Instant::never());
}

Result<void> Hub::await_roster(Instant deadline) {
  const auto settled = [this] {
    const std::lock_guard lock(state_mutex_);
    return complete_ || !refused_.empty() || lost_.count(::ps::kScheduler) != 0 ||
           left_.count(::ps::kScheduler) != 0;
  };
  for (;;) {
    const Instant now = net::monotonic_now();
    const bool done = crew_.wait(nullptr, settled, std::min(deadline, now + kNoticeEvery));
    const std::lock_guard lock(state_mutex_);
    if (complete_) return {};
    if (!refused_.empty()) return fail(ErrorCode::kDenied, refused_);
    if (done) {
      return fail(ErrorCode::kUnavailable,
                  "the scheduler has gone before all nodes had come; its log tells why");
    }
    const std::string missing =
        roster_ ? roster_->missing_text() : "the scheduler waits for others; its log names them";
    if (net::monotonic_now() >= deadline) {
      return fail(
          ErrorCode::kTimeout,
          fmt::format("the job did not start within {} s (SUMCAST_PS_START_TIMEOUT): {}",
                      std::chrono::duration<double>(settings_.start_timeout).count(), missing));
    }
    runtime::log_warn(Subsystem::kInit, "ps: waiting for the job to start: {}", missing);
  }
}

void Hub::stop() {
  const std::lock_guard lock(start_mutex_);
  if (!is_started()) return;
  stopping_ = true;
  std::vector<LinkPtr> links;
  const auto remaining = [&] {
    links.clear();
    const std::shared_lock tables(links_mutex_);
    for (const auto& [token, link] : links_) links.push_back(link);
    return links.size();
  };
  ControlMessage bye;
  bye.kind = "bye";
  remaining();
  for (const LinkPtr& link : links) {
    if (link->is_open()) say(link, bye);
  }
  flush();
  // What is queued leaves; then peers, told by our end of stream, close too. Closing first could
  // make the kernel throw away what they have not read.
  const Instant deadline = net::monotonic_now() + (settings_.resend ? kLossyFarewell : kFarewell);
  bool shut = false;
  while (remaining() > 0 && net::monotonic_now() < deadline) {
    if (!shut && std::all_of(links.begin(), links.end(), [](auto& l) { return l->is_idle(); })) {
      for (const LinkPtr& link : links) ::shutdown(link->fd(), SHUT_WR);
      shut = true;
    }
    std::this_thread::sleep_for(200us);
  }
  PS_VLOG(1) << my_node_.ShortDebugString() << " is stopped";
  close_all();
}

void Hub::close_all() {
  crew_.stop();
  ready_ = false;
  started_ = false;
  connected_ = false;
  replica_.on = false;
  merge_.on = false;
  first_came_ = false;
  {
    const std::lock_guard lock(links_mutex_);
    links_.clear();
    by_node_.clear();
    unclaimed_.clear();
    ended_at_.clear();
    closed_.clear();
  }
  const std::lock_guard lock(state_mutex_);
  roster_.reset();
  barrier_since_.clear();
  complete_ = false;
  nodes_.clear();
  refused_.clear();
  lost_.clear();
  left_.clear();
  covered_.clear();
  unsent_.clear();
  tokens_.clear();
  listener_.reset();
  poller_.reset();
  wake_.reset();
  drops_.reset();
  next_beat_ = last_beat_ = Instant{};
  early_due_ = false;
  my_node_.id = ::ps::Node::kEmpty;
}

const std::vector<int>& Hub::members(int group) {
  const std::lock_guard lock(state_mutex_);
  const auto it = members_.find(group);
  if (it != members_.end()) return it->second;
  return members_.emplace(group, std::vector<int>{group}).first->second;
}

}  // namespace sumcast::ps

// Start and stop.
#include "ps/hub.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "auth/key_file.h"
#include "net/interface.h"
#include "ps/customer_core.h"
#include "ps/internal/env.h"
#include "runtime/log.h"

namespace sumcast::ps {
namespace {

using runtime::Subsystem;

constexpr uint64_t kListenerToken = 0, kWakeToken = 1, kFirstLinkToken = 2;
constexpr Duration kRetryAfter = 50ms;
constexpr Duration kNoticeEvery = 10s;
constexpr Duration kFarewell = 2s;  ///< For what is queued at the end, and for peers to close.
constexpr Duration kLossyFarewell = 10s;  ///< The same where frames are lost and repeated.

std::string host_port(const std::string& host, int port) {
  return host.find(':') != std::string::npos ? fmt::format("[{}]:{}", host, port)
                                             : fmt::format("{}:{}", host, port);
}

net::TcpOptions tcp_options(const Settings& settings) {
  net::TcpOptions options;
  options.user_timeout = std::max(options.user_timeout, settings.silence_max);
  return options;
}

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
    add.nodes.push_back(my_node_);
    add.nodes.back().customer_id = customer_id;
    if (const LinkPtr scheduler = link_to(::ps::kScheduler)) say(scheduler, add);
  }
  if (auto all_here = await_roster(deadline); !all_here) return all_here;
  const std::lock_guard lock(start_mutex_);
  if (!connected_ && settings_.role == ::ps::Node::WORKER) {
    if (auto connected = connect_servers(deadline); !connected) return connected;
  }
  connected_ = true;
  ready_.store(true, std::memory_order_release);
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
    if (settings_.role == ::ps::Node::SCHEDULER) {
      roster_.emplace(settings_.num_servers, settings_.num_workers);
      complete_ = settings_.num_servers + settings_.num_workers == 0;
    }
  }
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

Result<void> Hub::open_sockets() {
  auto poller = net::Poller::create();
  if (!poller) return fail(poller.error());
  poller_.emplace(std::move(*poller));
  poller_->set_spin(settings_.spin);
  auto wake = net::WakeUp::create();
  if (!wake) return fail(wake.error());
  wake_.emplace(std::move(*wake));
  if (auto added = poller_->add(wake_->fd(), kWakeToken); !added) return added;

  const bool is_scheduler = settings_.role == ::ps::Node::SCHEDULER;
  const std::string root = host_port(settings_.root_host, settings_.root_port);
  auto root_address = net::parse_endpoint(root);
  if (!root_address && is_scheduler) {
    return fail(root_address.error().within("DMLC_PS_ROOT_URI"));
  }
  net::Endpoint local;
  if (is_scheduler) {
    my_node_.id = ::ps::kScheduler;
    my_node_.hostname = settings_.root_host;
    local = *root_address;
  } else if (!settings_.node_host.empty()) {
    my_node_.hostname = settings_.node_host;
    auto address = net::parse_endpoint(host_port(settings_.node_host, settings_.port));
    if (!address) return fail(address.error().within("DMLC_NODE_HOST"));
    local = *address;
  } else {
    const auto selector = net::IfnameSelector::parse(settings_.interface);
    if (!selector) return fail(selector.error().within("DMLC_INTERFACE"));
    const auto chosen =
        net::choose_local(root_address ? *root_address : net::Endpoint(), *selector);
    if (!chosen) return fail(chosen.error());
    my_node_.hostname = chosen->address_text();
    local = chosen->with_port(settings_.port);
  }
  const auto options = tcp_options(settings_);
  auto listener = net::TcpListener::open(local, options);
  if (!listener && listener.error().code == ErrorCode::kSystem) {
    // The name may be that of a service in front of this host, as in Kubernetes.
    listener = net::TcpListener::open(net::Endpoint::any(local.family(), local.port()), options);
  }
  if (!listener) return fail(listener.error());
  listener_.emplace(std::move(*listener));
  my_node_.port = listener_->local().port();
  return poller_->add(listener_->fd(), kListenerToken);
}

LinkPtr Hub::adopt(net::TcpConnection connection, auth::Side side) {
  auto link = std::make_shared<Link>(std::move(connection), key_ ? &*key_ : nullptr, side,
                                     settings_.lend && !key_ && !settings_.resend);
  link->heard_ns = net::monotonic_now().ns;
  if (settings_.resend) {
    core::RttEstimator::Config config;
    config.rto_initial = settings_.resend_timeout;
    config.rto_min = 10ms;
    config.rto_max = std::max<Duration>(settings_.resend_timeout, 1s);
    link->enable_resend(config);
  }
  const std::lock_guard lock(links_mutex_);
  link->token = kFirstLinkToken + next_token_++;
  return link;
}

/// Opens a connection, trying again while nobody listens there yet. It is not polled yet.
Result<LinkPtr> Hub::connect(const std::string& host, int port, Instant deadline) {
  const std::string target = host_port(host, port);
  for (;;) {
    const Instant now = net::monotonic_now();
    const Instant attempt = std::min(deadline, now + Duration(5s));
    auto address = net::parse_endpoint(target);
    Error error;
    if (address) {
      auto connection = net::connect_tcp(*address, std::nullopt, attempt, tcp_options(settings_));
      if (connection) {
        LinkPtr link = adopt(std::move(*connection), auth::Side::kClient);
        Preface other;
        auto* const out = reinterpret_cast<const std::byte*>(&link->preface());
        auto* const in = reinterpret_cast<std::byte*>(&other);
        auto done = link->connection().send_all({out, sizeof other}, attempt);
        if (done) done = link->connection().receive_all({in, sizeof other}, attempt);
        if (done) {
          if (auto accepted = link->on_preface(other); !accepted) return fail(accepted.error());
          return link;
        }
        error = done.error();
      } else {
        error = connection.error();
      }
    } else {
      error = address.error();
    }
    if (net::monotonic_now() + kRetryAfter >= deadline) return fail(error);
    std::this_thread::sleep_for(kRetryAfter);
  }
}

Result<void> Hub::connect_scheduler(Instant deadline) {
  auto link = connect(settings_.root_host, settings_.root_port, deadline);
  if (!link) {
    return fail(link.error().within(fmt::format(
        "cannot reach the scheduler (DMLC_PS_ROOT_URI, DMLC_PS_ROOT_PORT) within {} s",
        std::chrono::duration_cast<std::chrono::seconds>(settings_.start_timeout).count())));
  }
  introduce(*link, ::ps::kScheduler);
  return {};
}

Result<void> Hub::connect_servers(Instant deadline) {
  std::vector<::ps::Node> nodes;
  {
    const std::lock_guard lock(state_mutex_);
    nodes = nodes_;
  }
  for (const ::ps::Node& node : nodes) {
    if (node.role != ::ps::Node::SERVER) continue;
    auto link = connect(node.hostname, node.port, deadline);
    if (!link) return fail(link.error().within("cannot reach " + node_text(node.id)));
    introduce(*link, node.id);
  }
  return {};
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
  close_all();
}

void Hub::close_all() {
  crew_.stop();
  ready_ = false;
  started_ = false;
  connected_ = false;
  {
    const std::lock_guard lock(links_mutex_);
    links_.clear();
    by_node_.clear();
    unclaimed_.clear();
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
  unsent_.clear();
  tokens_.clear();
  listener_.reset();
  poller_.reset();
  wake_.reset();
  drops_.reset();
  next_beat_ = last_beat_ = Instant{};
  my_node_.id = ::ps::Node::kEmpty;
}

const std::vector<int>& Hub::members(int group) {
  const std::lock_guard lock(state_mutex_);
  const auto it = members_.find(group);
  if (it != members_.end()) return it->second;
  return members_.emplace(group, std::vector<int>{group}).first->second;
}

}  // namespace sumcast::ps

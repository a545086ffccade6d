// Sockets and the ways to others, when a job starts.
#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "net/descriptor.h"
#include "net/interface.h"
#include "ps/hub.h"
#include "ps/internal/postoffice.h"

namespace sumcast::ps {
namespace {

constexpr uint64_t kListenerToken = 0, kWakeToken = 1, kFirstLinkToken = 2;
constexpr Duration kRetryAfter = 50ms;

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
    local = settings_.any_address ? net::Endpoint::any(root_address->family(), root_address->port())
                                  : *root_address;
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
  } else if (settings_.by_priority) {
    link->enable_priority();
  }
  link->find_room = [this, of = link.get()](const FrameHeader& header, size_t bytes) {
    return room_for(*of, header, bytes);
  };
  const std::lock_guard lock(links_mutex_);
  link->token = kFirstLinkToken + next_token_++;
  return link;
}

/// Opens a connection, trying again while nobody listens there yet. It is not polled yet.
/// @param node  whose it is, if that is known: its death, or the scheduler's, which would tell of
///              it, ends the trying.
Result<LinkPtr> Hub::connect(const std::string& host, int port, Instant deadline,
                             std::optional<int> node) {
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
    if (const auto why = node ? why_lost({*node, ::ps::kScheduler}) : std::nullopt) {
      return fail(ErrorCode::kUnavailable, *why);
    }
    if (node && is_covered(*node)) return LinkPtr();
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
    if (auto reached = reach(node, deadline); !reached) return reached;
  }
  return {};
}

/// A connection to a node of the job, unless it is dead and another server stands in for it.
Result<void> Hub::reach(const ::ps::Node& node, Instant deadline) {
  auto link = connect(node.hostname, node.port, deadline, node.id);
  if (!link) return fail(link.error().within("cannot reach " + node_text(node.id)));
  if (*link != nullptr) introduce(*link, node.id);
  return {};
}

/// Between two neighbours there is one connection: with two servers, the first one's.
Result<void> Hub::connect_backup(Instant deadline) {
  if (settings_.num_servers == 2 && ::ps::Postoffice::IDtoRank(my_node_.id) == 1) return {};
  std::optional<::ps::Node> backup;
  {
    const std::lock_guard lock(state_mutex_);
    for (const ::ps::Node& node : nodes_) {
      if (node.id == backup_id()) backup = node;
    }
  }
  if (!backup) return fail(ErrorCode::kInvalidArgument, "SUMCAST_PS_REPLICAS: no next server");
  if (auto reached = reach(*backup, deadline); !reached) return reached;
  send_unsent_log(backup->id);
  return {};
}

}  // namespace sumcast::ps

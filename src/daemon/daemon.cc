#include "daemon/daemon.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>

#include "net/tcp.h"
#include "net/udp.h"
#include "runtime/clock.h"
#include "runtime/log.h"
#include "runtime/prometheus.h"

namespace sumcast::daemon {
namespace {

using runtime::Subsystem;

/// A thread that does not take a command for so long hangs; the others' jobs must go on.
constexpr Duration kCommandPatience = 2s;
constexpr Duration kReportPatience = 100ms;
constexpr Duration kHealthPatience = 500ms;
constexpr int kPortAttempts = 16;

/// How error texts on other hosts call this daemon: an address of all interfaces tells them
/// nothing.
std::string name_for_others(const net::Endpoint& listen) {
  if (!listen.is_wildcard()) return listen.text();
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return fmt::format("{}:{}", host.data(), listen.port());
}

/// A port that is free for TCP and UDP alike. Nobody holds it when this returns, so it can be lost
/// again; the caller then reports who has it.
Result<net::Endpoint> free_endpoint(const net::Endpoint& listen) {
  Error last;
  for (int attempt = 0; attempt < kPortAttempts; ++attempt) {
    const auto tcp = net::TcpListener::open(listen);
    if (!tcp) return fail(tcp.error());
    net::UdpOptions options;
    options.local = tcp->local();
    options.dual_stack = listen.family() == net::Family::kIpv6;
    const auto udp = net::UdpSocket::open(options);
    if (udp) return tcp->local();
    last = udp.error();
  }
  return fail(std::move(last));
}

}  // namespace

Daemon::Daemon(DaemonOptions options)
    : options_(std::move(options)), started_(runtime::monotonic_now()) {}

Result<std::unique_ptr<Daemon>> Daemon::start(DaemonOptions options) {
  const bool any_port = options.listen.port() == 0;
  if (any_port) {
    auto listen = free_endpoint(options.listen);
    if (!listen) return fail(std::move(listen.error()));
    options.listen = *listen;
  }
  auto daemon = std::unique_ptr<Daemon>(new Daemon(std::move(options)));
  if (daemon->options_.http) {
    auto http = HttpServer::open(*daemon->options_.http);
    if (!http) return fail(std::move(http.error()));
    daemon->http_ = std::move(*http);
    daemon->http_text_ = daemon->http_->endpoint().text();
  }
  if (auto opened = daemon->open_threads(any_port); !opened) {
    return fail(std::move(opened.error()));
  }
  if (auto started = daemon->start_server(); !started) return fail(std::move(started.error()));
  daemon->is_ready_ = true;
  if (daemon->http_) daemon->serve_pages();
  return daemon;
}

Daemon::~Daemon() { stop(); }

/// The first thread's port is the control port. The others have the ports above it, or, if that one
/// was any, any.
Result<void> Daemon::open_threads(bool any_ports) {
  for (uint32_t t = 0; t < options_.threads; ++t) {
    ShardThreadOptions thread;
    thread.index = static_cast<uint16_t>(t);
    const uint32_t port = any_ports && t > 0 ? 0 : options_.listen.port() + t;
    thread.listen = options_.listen.with_port(static_cast<uint16_t>(port));
    thread.faults = options_.faults;
    thread.spin = options_.spin;
    thread.multicast = options_.multicast;
    thread.faults.seed += t;  // Threads that lose the same datagrams would rehearse less.
    thread.on_mismatch = [this](Incarnation incarnation, const control::Mismatch& mismatch) {
      report_mismatch(incarnation, mismatch);
    };
    auto opened = ShardThread::start(std::move(thread));
    if (!opened) return fail(opened.error().within(fmt::format("shard thread {}", t)));
    if (t == 0 && (*opened)->buffer_advice()) {
      runtime::log_warn(Subsystem::kNet, "{}", *(*opened)->buffer_advice());
    }
    threads_.push_back(std::move(*opened));
  }
  return {};
}

Result<void> Daemon::start_server() {
  control::ServerOptions server;
  server.listen = options_.listen;
  server.key = options_.key;
  server.coordinator.where = name_for_others(options_.listen);
  server.coordinator.shards = shards();
  server.coordinator.slots_per_job = options_.slots_per_job;
  server.coordinator.heartbeat = options_.heartbeat;
  server.coordinator.death = options_.death;
  const std::lock_guard lock(server_mutex_);
  auto started = control::CoordinatorServer::start(std::move(server), *this);
  if (!started) return fail(std::move(started.error()));
  server_ = std::move(*started);
  return {};
}

void Daemon::stop() {
  if (!server_ || !is_ready_.exchange(false)) return;
  server_->stop();  // It still tells the threads that their jobs end.
  http_.reset();
  threads_.clear();
}

std::vector<std::string> Daemon::shards() const {
  std::vector<std::string> texts;
  for (const auto& thread : threads_) texts.push_back(thread->endpoint().text());
  return texts;
}

bool Daemon::wait_for_threads(const std::vector<ShardThread::Ticket>& tickets, Duration patience) {
  const Instant deadline = runtime::monotonic_now() + patience;
  bool all = true;
  for (size_t t = 0; t < tickets.size(); ++t) {
    all = threads_[t]->wait_until_done(tickets[t], deadline) && all;
  }
  return all;
}

/// Posts to all first and waits then, so that the threads work side by side.
template <typename Post>
void Daemon::on_all_threads(const char* what, Post post) {
  std::vector<ShardThread::Ticket> tickets;
  for (const auto& thread : threads_) tickets.push_back(post(*thread));
  if (!wait_for_threads(tickets, kCommandPatience)) {
    runtime::log_warn(Subsystem::kDaemon, "a shard thread did not {} within {} s; it may hang",
                      what,
                      std::chrono::duration_cast<std::chrono::seconds>(kCommandPatience).count());
  }
}

void Daemon::job_started(const control::JobPlan& plan) {
  on_all_threads("start a job", [&](ShardThread& t) { return t.start_job(plan, options_.key); });
  runtime::log_info(Subsystem::kDaemon, "job \"{}\" runs with {} workers", plan.name,
                    plan.members.size());
}

void Daemon::group_opened(const control::GroupPlan& plan) {
  on_all_threads("open a group", [&](ShardThread& t) { return t.open_group(plan); });
  runtime::log_info(Subsystem::kDaemon, "group {} of {} workers has slots {} to {}",
                    plan.group.value, plan.ranks.size(), plan.slot_base.value,
                    plan.slot_base.value + plan.slot_count - 1);
}

void Daemon::group_closed(Incarnation incarnation, GroupId group) {
  on_all_threads("close a group",
                 [&](ShardThread& t) { return t.close_group(incarnation, group); });
}

void Daemon::job_ended(Incarnation incarnation) {
  on_all_threads("end a job", [&](ShardThread& t) { return t.end_job(incarnation); });
}

void Daemon::report_mismatch(Incarnation incarnation, const control::Mismatch& mismatch) {
  const std::lock_guard lock(server_mutex_);
  if (server_) server_->report_mismatch(incarnation, mismatch);
}

DaemonFacts Daemon::facts() {
  std::vector<ShardThread::Ticket> tickets;
  for (const auto& thread : threads_) tickets.push_back(thread->publish());
  // If a thread is too busy, what it published last will do.
  (void)wait_for_threads(tickets, kReportPatience);
  DaemonFacts facts;
  facts.pid = ::getpid();
  facts.uptime = runtime::monotonic_now() - started_;
  facts.listen = listen().text();
  facts.http = http_text_;
  facts.shards = shards();
  for (const auto& thread : threads_) facts.threads.push_back(thread->report());
  facts.coordinator = server_->status_json();
  return facts;
}

HttpPage Daemon::health_page() {
  std::vector<ShardThread::Ticket> tickets;
  for (const auto& thread : threads_) tickets.push_back(thread->publish());
  if (wait_for_threads(tickets, kHealthPatience)) return {.body = "healthy\n"};
  return {.status = 503, .body = "a shard thread does not answer\n"};
}

HttpPage Daemon::ready_page() {
  if (is_ready_) return {.body = "ready\n"};
  return {.status = 503, .body = "stopping\n"};
}

void Daemon::serve_pages() {
  http_->serve({
      {"/",
       [] {
         return HttpPage{.body = "sumcastd " SUMCAST_VERSION
                                 ": /status /metrics /-/healthy /-/ready\n"};
       }},
      {"/status",
       [this] {
         using Json = nlohmann::json;
         return HttpPage{
             .content_type = "application/json",
             .body =
                 status_page(facts()).dump(2, ' ', false, Json::error_handler_t::replace) + "\n"};
       }},
      {"/metrics",
       [this] {
         return HttpPage{.content_type = std::string(runtime::kPrometheusContentType),
                         .body = metrics_page(facts())};
       }},
      {"/-/healthy", [this] { return health_page(); }},
      {"/-/ready", [this] { return ready_page(); }},
  });
}

}  // namespace sumcast::daemon

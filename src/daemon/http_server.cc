#include "daemon/http_server.h"

#include <fmt/format.h>
#include <httplib.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "net/port_owner.h"

namespace sumcast::daemon {
namespace {

constexpr size_t kThreads = 2;

Error cannot_serve(const net::Endpoint& listen, int error_number) {
  if (error_number == EADDRINUSE) {
    std::string by;
    if (const auto owner = net::find_port_owner(net::Transport::kTcp, listen)) {
      by = fmt::format(" by pid {} ({})", owner->pid, owner->name);
    }
    return {ErrorCode::kUnavailable,
            fmt::format("address {} for status pages is already in use{}; choose another with "
                        "--http, or --http none",
                        listen.text(), by)};
  }
  return {ErrorCode::kUnavailable,
          fmt::format("cannot serve status pages at {}: {}; choose another address with --http",
                      listen.text(), std::strerror(error_number))};
}

}  // namespace

struct HttpServer::Impl {
  httplib::Server server;
  std::thread thread;
};

HttpServer::HttpServer(std::unique_ptr<Impl> impl, const net::Endpoint& endpoint)
    : impl_(std::move(impl)), endpoint_(endpoint) {}

Result<std::unique_ptr<HttpServer>> HttpServer::open(const net::Endpoint& listen) {
  auto impl = std::make_unique<Impl>();
  httplib::Server& server = impl->server;
  server.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
  // The library's own choice is SO_REUSEPORT, with which a second daemon would get half of the
  // requests instead of an error.
  server.set_socket_options([](socket_t fd) {
    const int on = 1;
    ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  });
  server.set_keep_alive_max_count(1);
  server.set_keep_alive_timeout(1);
  server.set_read_timeout(std::chrono::milliseconds(500));
  server.set_write_timeout(std::chrono::milliseconds(500));
  server.set_payload_max_length(4096);
  const std::string host = listen.address_text();
  errno = 0;
  int port = listen.port();
  if (port == 0) {
    port = server.bind_to_any_port(host);
  } else if (!server.bind_to_port(host, port)) {
    port = -1;
  }
  if (port < 0) return fail(cannot_serve(listen, errno));
  return std::unique_ptr<HttpServer>(
      new HttpServer(std::move(impl), listen.with_port(static_cast<uint16_t>(port))));
}

void HttpServer::serve(const std::map<std::string, PageMaker>& pages) {
  for (const auto& [path, make] : pages) {
    impl_->server.Get(path, [make = make](const httplib::Request&, httplib::Response& response) {
      const HttpPage page = make();
      response.status = page.status;
      response.set_content(page.body, page.content_type);
    });
  }
  impl_->thread = std::thread([this] { impl_->server.listen_after_bind(); });
  // Until it listens, stop() would find nothing to stop.
  while (!impl_->server.is_running()) std::this_thread::yield();
}

HttpServer::~HttpServer() {
  impl_->server.stop();
  if (impl_->thread.joinable()) impl_->thread.join();
}

}  // namespace sumcast::daemon

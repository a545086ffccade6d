// A few read-only pages over HTTP. The only file pair that knows cpp-httplib.
//
// Small on purpose: two threads, one request per connection, nothing that changes state. It does
// not know what the pages say.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/result.h"
#include "net/address.h"

namespace sumcast::daemon {

struct HttpPage {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

/// Makes a page anew for each request. Called on the server's threads, several at a time.
using PageMaker = std::function<HttpPage()>;

class HttpServer {
 public:
  /// Takes the port (0: any free one). Connections wait until serve() is called.
  /// Errors: kUnavailable, naming who has the port if known.
  static Result<std::unique_ptr<HttpServer>> open(const net::Endpoint& listen);
  /// Stops; a request under way is answered first, a slow client gets a second.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  const net::Endpoint& endpoint() const { return endpoint_; }
  /// Starts to answer. `pages` by path; what they refer to outlives the server. Once.
  void serve(const std::map<std::string, PageMaker>& pages);

 private:
  struct Impl;
  HttpServer(std::unique_ptr<Impl> impl, const net::Endpoint& endpoint);

  std::unique_ptr<Impl> impl_;
  net::Endpoint endpoint_;
};

}  // namespace sumcast::daemon

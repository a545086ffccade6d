#include "cli/status_command.h"

#include <fmt/format.h>
#include <httplib.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/exit_codes.h"
#include "cli/status_text.h"
#include "net/address.h"
#include "runtime/config.h"

namespace sumcast::cli {
namespace {

using nlohmann::json;

constexpr std::chrono::seconds kWatchEvery{1};
constexpr std::chrono::seconds kPatience{5};

/// A daemon that serves on all interfaces is asked on this host's own.
Result<net::Endpoint> endpoint_of(const std::string& text) {
  auto endpoint = net::parse_endpoint(text);
  if (!endpoint) return fail(endpoint.error().within("--http"));
  if (endpoint->is_wildcard()) return net::Endpoint::loopback(endpoint->family(), endpoint->port());
  return endpoint;
}

Result<std::string> fetch(const net::Endpoint& endpoint) {
  httplib::Client client(endpoint.address_text(), endpoint.port());
  client.set_connection_timeout(kPatience);
  client.set_read_timeout(kPatience);
  const httplib::Result answer = client.Get("/status");
  if (!answer) {
    const bool is_refused = answer.error() == httplib::Error::Connection;
    return fail(
        ErrorCode::kUnavailable,
        fmt::format(
            "no daemon answers at http://{}{}; does sumcastd run there, and is this "
            "its --http address?{}",
            endpoint.text(), is_refused ? "" : ": it takes the connection but does not answer",
            endpoint.is_loopback() ? ""
                                   : " Unless told so, it serves its status on its own host only"));
  }
  if (answer->status != 200) {
    return fail(ErrorCode::kUnavailable,
                fmt::format("http://{}/status answers with code {}: this is no sumcastd",
                            endpoint.text(), answer->status));
  }
  return answer->body;
}

Result<std::string> render(const net::Endpoint& endpoint, const StatusOptions& options) {
  auto body = fetch(endpoint);
  if (!body || (options.json && !options.watch)) return body;
  const json status = json::parse(*body, nullptr, false);
  const std::string where = fmt::format("http://{}/status", endpoint.text());
  if (status.is_discarded()) {
    return fail(ErrorCode::kUnavailable, where + ": this is no sumcastd, it is not even JSON");
  }
  if (options.json) return status.dump() + "\n";
  auto text = status_text(status);
  if (!text) return fail(text.error().within(where));
  return text;
}

std::string default_http() {
  const auto settings = runtime::load_settings(std::nullopt);
  if (settings && !settings->daemon_http.empty()) return settings->daemon_http;
  return runtime::Settings().daemon_http;
}

}  // namespace

Result<int> run_status(const StatusOptions& options, std::ostream& out) {
  const auto endpoint = endpoint_of(options.http);
  if (!endpoint) return fail(endpoint.error());
  const bool clears = options.watch && !options.json && &out == &std::cout && ::isatty(1) == 1;
  for (;;) {
    const auto text = render(*endpoint, options);
    if (!text) return fail(text.error());
    if (clears) out << "\x1b[H\x1b[2J";
    out << *text << std::flush;
    if (!options.watch || !out) return 0;
    std::this_thread::sleep_for(kWatchEvery);
  }
}

void add_status_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<StatusOptions>();  // Lives in the callback, after we return.
  CLI::App* command =
      app.add_subcommand("status", "Show a daemon's jobs, who waits for whom, and its counters");
  command->add_option("--http", options->http, "The daemon's address of status pages")
      ->type_name("ADDR:PORT");
  command->footer(
      "Without --http: as SUMCAST_HTTP or the configuration file say, else 127.0.0.1:4701.\n"
      "Examples:\n"
      "  sumcast status\n"
      "  sumcast status --http 10.0.0.1:4701 --watch\n"
      "  sumcast status --json");
  command->add_flag("--json", options->json, "The daemon's own document");
  command->add_flag("--watch", options->watch, "Again every second");
  command->callback([options, &exit_code] {
    if (options->http.empty()) options->http = default_http();
    const auto done = run_status(*options, std::cout);
    if (!done) std::fprintf(stderr, "sumcast status: %s\n", done.error().what.c_str());
    exit_code = done ? *done : exit_code_of(done.error());
  });
}

}  // namespace sumcast::cli

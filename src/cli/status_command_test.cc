#include "cli/status_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <CLI/CLI.hpp>
#include <sstream>
#include <thread>

namespace sumcast::cli {
namespace {

using testing::HasSubstr;

/// Answers every request for /status with one text.
class FakeDaemon {
 public:
  explicit FakeDaemon(const std::string& body) {
    server_.Get("/status", [body](const httplib::Request&, httplib::Response& response) {
      response.set_content(body, "application/json");
    });
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) std::this_thread::yield();
  }
  ~FakeDaemon() {
    server_.stop();
    thread_.join();
  }
  std::string http() const { return "127.0.0.1:" + std::to_string(port_); }
  std::string http_of_all_interfaces() const { return "0.0.0.0:" + std::to_string(port_); }

 private:
  httplib::Server server_;
  int port_ = 0;
  std::thread thread_;
};

TEST(StatusCommand, JsonIsTheDaemonsDocumentAsItIs) {
  const std::string body = "{ \"program\": \"sumcastd\",\n \"new\": 1 }\n";
  const FakeDaemon daemon(body);
  for (const std::string& http : {daemon.http(), daemon.http_of_all_interfaces()}) {
    std::ostringstream out;
    EXPECT_EQ(run_status({http, true, false}, out).value(), 0);
    EXPECT_EQ(out.str(), body);
  }
}

TEST(StatusCommand, NobodyThereIsAnErrorThatSaysWhere) {
  std::string http;
  { http = FakeDaemon("").http(); }
  std::ostringstream out;
  const auto done = run_status({http, false, false}, out);
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(done.error().what, HasSubstr("no daemon answers at http://" + http));
  EXPECT_EQ(out.str(), "");
}

TEST(StatusCommand, AnotherProgramThereIsAnError) {
  for (const char* body : {"<html>hello</html>", "{\"program\": \"other\"}"}) {
    const FakeDaemon other(body);
    std::ostringstream out;
    const auto done = run_status({other.http(), false, false}, out);
    ASSERT_FALSE(done.has_value());
    EXPECT_EQ(done.error().code, ErrorCode::kUnavailable);
    EXPECT_THAT(done.error().what, HasSubstr("http://" + other.http() + "/status"));
  }
}

TEST(StatusCommand, AnAddressThatIsNoneIsAnError) {
  std::ostringstream out;
  EXPECT_THAT(run_status({"nowhere", false, false}, out).error().what, HasSubstr("--http"));
}

TEST(StatusCommand, RunsWhenItIsParsedAndLeavesAnExitCode) {
  const FakeDaemon daemon("{\"program\": \"sumcastd\"}");
  const auto exit_code_of = [&](const std::string& flags) {
    CLI::App app("sumcast");
    int exit_code = -1;
    add_status_command(app, exit_code);
    app.parse("status --http " + daemon.http() + flags);
    return exit_code;
  };
  EXPECT_EQ(exit_code_of(" --json"), 0);
  EXPECT_EQ(exit_code_of(""), 1);  // That is not all of a status.
}

}  // namespace
}  // namespace sumcast::cli

// A rank that cannot join yet says why in its log, long before it gives up.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <iterator>

#include "control/client.h"
#include "control/server.h"
#include "net/tcp.h"
#include "runtime/log.h"

namespace sumcast::control {
namespace {

class Quiet : public JobObserver {
  void job_started(const JobPlan&) override {}
  void group_opened(const GroupPlan&) override {}
  void group_closed(Incarnation, GroupId) override {}
  void job_ended(Incarnation) override {}
};

class Idle : public ClientObserver {
  void on_abort(std::optional<GroupId>, const Error&, const std::vector<Rank>&) override {}
  std::vector<GroupActivity> activity() override { return {}; }
  Description describe(const Describe&) override { return {}; }
  void on_left(const Left&) override {}
};

/// What joining without success leaves in the log.
class JoinNotices : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(runtime::configure_log({.file = path_}).has_value()); }
  void TearDown() override {
    ASSERT_TRUE(runtime::configure_log({}).has_value());
    std::remove(path_.c_str());
  }

  static net::Endpoint loopback() { return net::Endpoint::loopback(net::Family::kIpv4, 0); }
  std::string log_of_joining(const net::Endpoint& coordinator, std::optional<auth::Key> key,
                             Duration notice = 50ms) {
    JoinOptions options;
    options.coordinator = coordinator;
    options.key = key;
    options.join = Join{"x", Rank(0), 2, "h", "n", "", "", "", milliseconds(500)};
    options.notice = notice;
    Idle observer;
    EXPECT_FALSE(ControlClient::join(options, observer).has_value());
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static size_t count(const std::string& text, const std::string& part) {
    size_t found = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
      ++found;
    }
    return found;
  }

  const std::string path_ =
      testing::TempDir() + testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(JoinNotices, NameAnAddressWhereNobodyListens) {
  net::Endpoint nobody;
  {
    const auto listener = net::TcpListener::open(loopback());
    nobody = listener->local();
  }
  const std::string log = log_of_joining(nobody, std::nullopt);
  EXPECT_NE(log.find("SUMCAST WARN INIT rank 0 has tried for "), std::string::npos) << log;
  EXPECT_NE(log.find("to join job \"x\": " + nobody.text() + " refused the connection"),
            std::string::npos)
      << log;
  EXPECT_NE(log.find("it gives up in "), std::string::npos) << log;
  EXPECT_LE(count(log, "gives up"), 4u) << log;  // After 50, 100, 200 and 400 ms.
}

TEST_F(JoinNotices, NameAListenerThatSaysNothing) {
  const auto listener = net::TcpListener::open(loopback());
  const std::string log = log_of_joining(listener->local(), std::nullopt);
  EXPECT_NE(log.find(listener->local().text() + " accepts connections but does not answer"),
            std::string::npos)
      << log;
  EXPECT_LE(count(log, "gives up"), 4u) << log;
}

TEST_F(JoinNotices, PassOnWhomTheCoordinatorWaitsFor) {
  const auth::Key key = auth::random_key();
  Quiet jobs;
  ServerOptions options;
  options.listen = loopback();
  options.key = key;
  options.coordinator.notice_join = 50ms;
  const auto server = CoordinatorServer::start(std::move(options), jobs);
  ASSERT_TRUE(server.has_value());
  const std::string log = log_of_joining((*server)->endpoint(), key, 5s);
  EXPECT_NE(log.find("to join job \"x\" at " + (*server)->endpoint().text() +
                     ": 1 of 2 workers is missing: rank 1; it gives up in "),
            std::string::npos)
      << log;
  EXPECT_EQ(log.find("does not answer"), std::string::npos) << log;
}

}  // namespace
}  // namespace sumcast::control

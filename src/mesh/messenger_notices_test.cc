// Messages that do not come are named in the log, long before their deadline.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <iterator>

#include "mesh/test_messengers.h"
#include "runtime/log.h"

namespace sumcast::mesh {
namespace {

TEST(Notices, AnExchangeThatWaitsSaysForWhom) {
  const std::string path = testing::TempDir() + "messenger_notices.log";
  ASSERT_TRUE(runtime::configure_log({.file = path}).has_value());
  {
    TestWorld world{2};
    auto messenger = Messenger::create(world.mesh(0), {}, {}, 100ms);
    ASSERT_TRUE(messenger.has_value());
    (*messenger)->open_group(kGroup);
    std::vector<uint32_t> data(4);
    const Receiving what{Rank(1), reinterpret_cast<std::byte*>(data.data()), 16, 1, 7};
    const Instant deadline = net::monotonic_now() + 1500ms;
    auto exchange = (*messenger)->post(kGroup, {}, std::span(&what, 1), deadline);
    ASSERT_TRUE(exchange.has_value());
    EXPECT_FALSE((*messenger)->wait(**exchange, deadline).has_value());
  }
  ASSERT_TRUE(runtime::configure_log({}).has_value());
  std::ifstream file(path);
  const std::string log{std::istreambuf_iterator<char>(file), {}};
  std::remove(path.c_str());
  EXPECT_NE(log.find("SUMCAST WARN COLL messages of group 0 have waited "), std::string::npos)
      << log;
  EXPECT_NE(log.find("nothing came from rank 1"), std::string::npos) << log;
  EXPECT_NE(log.find("; they fail in "), std::string::npos) << log;
}

}  // namespace
}  // namespace sumcast::mesh

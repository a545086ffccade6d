// A7: tensors around 2^31 bytes and elements, to the last element, without a second copy.
#include <fstream>

#include "acceptance/site.h"

namespace sumcast::acceptance {
namespace {

uint64_t available_bytes() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("MemAvailable:")) return std::stoull(line.substr(13)) << 10;
  }
  return 0;
}

constexpr uint64_t k2To31 = uint64_t{1} << 31;

struct Size {
  const char* name;
  const char* type;
  uint64_t count, bytes;
  bool is_short;
};
std::ostream& operator<<(std::ostream& out, const Size& size) { return out << size.name; }

constexpr Size kSizes[] = {
    {"OneMoreThan2To31Bytes", "u8", k2To31 + 1, k2To31 + 1, true},
    {"2To31Bytes", "u8", k2To31, k2To31, false},
    {"OneLessThan2To31Bytes", "u8", k2To31 - 1, k2To31 - 1, false},
    {"FloatsBeyond2To31Bytes", "f32", k2To31 / 4 + 1, k2To31 + 4, false},
};

class Big : public testing::TestWithParam<std::tuple<Size, bool>> {};

TEST_P(Big, TensorIsSummedToTheLastElement) {
  const auto& [size, with_daemon] = GetParam();
  if (!is_long() && (!size.is_short || with_daemon)) GTEST_SKIP() << "SUMCAST_LONG=1 runs it";
  if (available_bytes() < 2 * size.bytes + (uint64_t{3} << 30)) {
    GTEST_SKIP() << "not enough memory for two such tensors";
  }
  const auto hosts = loopback_hosts(2);
  DaemonProcess daemon(hosts);
  Crew crew(hosts, 2);
  expect_all_ok(
      crew.join((with_daemon ? at_aggregator(daemon) : at_coordinator(hosts)) + "timeout=600000"));
  crew.tell_all(std::string("big ") + size.type + " " + std::to_string(size.count));
  for (size_t r = 0; r < 2; ++r) {
    const json answer = crew[r].hear(900s);
    ASSERT_TRUE(answer.value("ok", false)) << answer.dump();
    EXPECT_LE(answer["facts"]["rss_kb_max"].get<uint64_t>() * 1024, size.bytes / 4 * 5);
  }
}

INSTANTIATE_TEST_SUITE_P(Of, Big, testing::Combine(testing::ValuesIn(kSizes), testing::Bool()),
                         [](const auto& one) {
                           return std::string(std::get<0>(one.param).name) +
                                  (std::get<1>(one.param) ? "InNetwork" : "Direct");
                         });

}  // namespace
}  // namespace sumcast::acceptance

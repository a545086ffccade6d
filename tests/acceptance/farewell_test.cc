// Leaving in good order: who closes a group or leaves right after its last operation does not end
// that operation on ranks that are slower, however much of it is still on its way to them.
#include "acceptance/site.h"
#include "acceptance/tensor.h"

namespace sumcast::acceptance {
namespace {

class Farewell : public testing::TestWithParam<bool> {};

TEST_P(Farewell, RightAfterTheLastOperationHarmsNobody) {
  constexpr uint32_t kWorld = 4;
  const auto hosts = loopback_hosts(kWorld);
  DaemonProcess daemon(hosts);
  const std::string expected = sha256(
      all_reduce_reference(ElementType::kF32, Values::kAny, Reduction::kSum, 8, kWorld, 100'000));
  for (int round = 0; round < by_length(4, 40); ++round) {
    Crew crew(hosts, kWorld);
    const std::string where = GetParam() ? at_aggregator(daemon) : at_coordinator(hosts);
    // Rank 3 alone loses much, and so is the last.
    const std::string key = " world=4 key=" + key_file() + " job=j" + std::to_string(round) + " ";
    for (size_t r = 0; r < kWorld; ++r) {
      crew[r].tell("join rank=" + std::to_string(r) + key + where +
                   (r == 3 ? "loss=0.1 seed=" + std::to_string(round) : ""));
    }
    for (size_t r = 0; r < kWorld; ++r) EXPECT_TRUE(crew[r].hear().value("ok", false));
    expect_all_ok(crew.all("group sub 3,2,1,0"));
    crew.tell_all("all_reduce f32 sum 100000 seed=1");
    crew.tell_all("all_gather f32 copy 20000 seed=1 group=sub");
    crew.tell_all("close sub");
    crew.tell_all("all_reduce f32 sum 100000 seed=8");
    crew.tell_all("leave");
    std::vector<json> gathered, last;
    for (size_t r = 0; r < kWorld; ++r) {
      EXPECT_TRUE(crew[r].hear().value("ok", false));
      gathered.push_back(crew[r].hear());
      EXPECT_TRUE(crew[r].hear().value("ok", false));
      last.push_back(crew[r].hear());
      EXPECT_TRUE(crew[r].hear().value("ok", false));
    }
    expect_all_ok(gathered);
    expect_all_sha(last, expected);
  }
}

TEST_P(Farewell, OfARankThatOthersStillNeedIsNamedAtOnce) {
  const auto hosts = loopback_hosts(3);
  DaemonProcess daemon(hosts);
  Crew crew(hosts, 3);
  expect_all_ok(crew.join(GetParam() ? at_aggregator(daemon) : at_coordinator(hosts)));
  for (const size_t r : {0, 2}) crew[r].tell("all_reduce f32 sum 1000 timeout=120000");
  crew[1].tell("leave");
  const std::vector<json> answers = {crew[0].hear(20s), crew[2].hear(20s)};
  const std::string text = expect_one_error(answers, ErrorCode::kAborted);
  EXPECT_THAT(text, testing::HasSubstr("rank 1"));
  EXPECT_THAT(text, testing::HasSubstr("left"));
}

INSTANTIATE_TEST_SUITE_P(Routes, Farewell, testing::Values(false, true), route_name);

}  // namespace
}  // namespace sumcast::acceptance

// A3: ranks that call different things get one error that names both, and keep their tensors.
#include "acceptance/site.h"

namespace sumcast::acceptance {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

struct Disagreement {
  const char* name;
  const char* most;  ///< What all ranks but one call ...
  const char* odd;   ///< ... and what that one calls.
  const char* most_text;
  const char* odd_text;
};

std::ostream& operator<<(std::ostream& out, const Disagreement& what) { return out << what.name; }

constexpr Disagreement kDisagreements[] = {
    {"Count", "all_reduce f32 sum 100", "all_reduce f32 sum 200", "f32[100]", "f32[200]"},
    {"CountInTheSecondChunk", "all_reduce f32 sum 100000", "all_reduce f32 sum 100001",
     "f32[100000]", "f32[100001]"},
    {"NothingAgainstSomething", "all_reduce f32 sum 0", "all_reduce f32 sum 7", "f32[0]", "f32[7]"},
    {"Type", "all_reduce f32 sum 1000", "all_reduce i32 sum 1000", "f32[1000]", "i32[1000]"},
    {"TypeOfOneSize", "all_reduce f16 sum 1000", "all_reduce bf16 sum 1000", "f16[1000]",
     "bf16[1000]"},
    {"Reduction", "all_reduce f32 sum 1000", "all_reduce f32 max 1000", "sum", "max"},
    {"WireFormat", "all_reduce f32 sum 1000", "all_reduce f32 sum 1000 wire=bf16", "f32[1000] sum",
     "bf16"},
    {"Kind", "all_reduce f32 sum 1000", "broadcast f32 copy 1000 root=0", "all_reduce f32[1000]",
     "broadcast f32[1000]"},
    {"Root", "broadcast f32 copy 1000 root=0", "broadcast f32 copy 1000 root=1", "rank 0",
     "rank 1"},
    {"AllGatherAgainstReduceScatter", "all_gather u8 copy 3000", "reduce_scatter u8 sum 3000",
     "all_gather u8[3000]", "reduce_scatter u8[3000]"},
};

class Mismatch : public testing::TestWithParam<std::tuple<Disagreement, bool>> {};

TEST_P(Mismatch, IsOneErrorOnAllRanksThatNamesBoth) {
  const auto& [what, with_daemon] = GetParam();
  const auto hosts = loopback_hosts(3);
  DaemonProcess daemon(hosts);
  Crew crew(hosts, 3);
  expect_all_ok(crew.join(with_daemon ? at_aggregator(daemon) : at_coordinator(hosts)));
  expect_all_ok(crew.all("all_reduce f32 sum 1000 seed=1"));
  for (size_t r = 0; r < 3; ++r) crew[r].tell(r == 1 ? what.odd : what.most);
  std::vector<json> answers;
  for (size_t r = 0; r < 3; ++r) answers.push_back(crew[r].hear());
  const std::string text = expect_one_error(answers, ErrorCode::kMismatch);
  EXPECT_THAT(text, HasSubstr(what.most_text));
  EXPECT_THAT(text, HasSubstr(what.odd_text));
  EXPECT_THAT(text, HasSubstr("rank 1 calls"));
  // A mismatch is found by the first two that meet: the third may not have called yet.
  EXPECT_THAT(text, AnyOf(HasSubstr("ranks 0 and 2 call"), HasSubstr("rank 0 calls"),
                          HasSubstr("rank 2 calls")));
  for (const json& answer : answers) EXPECT_TRUE(answer.value("untouched", false)) << answer.dump();
  // The group is poisoned, explicitly; another one of the same ranks works.
  for (const json& again : crew.all("all_reduce f32 sum 10")) {
    EXPECT_EQ(again.value("error", ""), text);
  }
  expect_all_ok(crew.all("group fresh 0,1,2"));
  expect_all_ok(crew.all("all_reduce f32 sum 10 group=fresh"));
}

INSTANTIATE_TEST_SUITE_P(Of, Mismatch,
                         testing::Combine(testing::ValuesIn(kDisagreements), testing::Bool()),
                         [](const auto& one) {
                           return std::string(std::get<0>(one.param).name) +
                                  (std::get<1>(one.param) ? "InNetwork" : "Direct");
                         });

TEST(MismatchInOrder, IsFoundThoughEachRankCallsTheSameTwoThings) {
  const auto hosts = loopback_hosts(2);
  for (const bool with_daemon : {false, true}) {
    DaemonProcess daemon(hosts);
    Crew crew(hosts, 2);
    expect_all_ok(crew.join(with_daemon ? at_aggregator(daemon) : at_coordinator(hosts)));
    crew[0].tell("all_reduce f32 sum 1000 seed=1");
    crew[0].tell("all_reduce i64 max 2000 seed=2");
    crew[1].tell("all_reduce i64 max 2000 seed=2");
    crew[1].tell("all_reduce f32 sum 1000 seed=1");
    std::string text;
    for (int n = 0; n < 2; ++n) {
      const std::vector<json> answers = {crew[0].hear(), crew[1].hear()};
      text = expect_one_error(answers, ErrorCode::kMismatch);
      for (const json& answer : answers) EXPECT_TRUE(answer.value("untouched", false));
    }
    EXPECT_THAT(text, HasSubstr("all_reduce f32[1000] sum"));
    EXPECT_THAT(text, HasSubstr("all_reduce i64[2000] max"));
  }
}

}  // namespace
}  // namespace sumcast::acceptance

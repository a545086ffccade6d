// Several ranks on each of several hosts: one contribution per host, one tree of additions, one
// fate.
#include <signal.h>

#include <thread>

#include "acceptance/site.h"
#include "acceptance/tensor.h"

namespace sumcast::acceptance {
namespace {

using testing::HasSubstr;

constexpr uint32_t kHosts = 3, kPerHost = 2, kWorld = kHosts * kPerHost;
constexpr Duration kPatience = 20s;

/// Three namespaces with two ranks each, without a daemon and with one.
class SharedHosts : public NamespaceTest, public testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    NamespaceTest::SetUp();
    if (IsSkipped()) return;
    lab::ClusterOptions options;
    options.workers = kHosts;
    hosts_.emplace(namespace_hosts(options));
    daemon_.emplace(*hosts_);
    crew_.emplace(*hosts_, kWorld, kPerHost);
    expect_all_ok(crew_->join(where()));
  }
  std::string where() const {
    return "share=1 " + (GetParam() ? at_aggregator(*daemon_) : at_coordinator(*hosts_));
  }
  std::vector<json> hear_but(size_t missing) {
    std::vector<json> answers;
    for (size_t r = 0; r < kWorld; ++r) {
      if (r != missing) answers.push_back((*crew_)[r].hear(kPatience));
    }
    return answers;
  }

  std::optional<lab::Cluster> hosts_;
  std::optional<DaemonProcess> daemon_;
  std::optional<Crew> crew_;
};

/// docs/numerics.md N1: the ranks of a host, then the hosts.
std::vector<std::byte> tree(ElementType type, Reduction reduction, uint64_t seed, uint64_t count) {
  std::vector<std::vector<std::byte>> partial;
  for (uint32_t host = 0; host < kHosts; ++host) {
    std::vector<std::vector<std::byte>> ranks;
    for (uint32_t r = 0; r < kPerHost; ++r) {
      ranks.push_back(make_tensor(type, Values::kAny, reduction, seed, host * kPerHost + r, count));
    }
    partial.push_back(reduce_reference(type, reduction, ranks));
  }
  return reduce_reference(type, reduction, partial);
}

TEST_P(SharedHosts, SumInTheOrderOfTheTree) {
  for (const ElementType type :
       {ElementType::kF32, ElementType::kF64, ElementType::kI32, ElementType::kU8}) {
    for (const Reduction reduction : {Reduction::kSum, Reduction::kMax, Reduction::kProduct}) {
      for (const uint64_t count : {1u, 3000u, 400'001u}) {
        const std::string words = std::string(name_of(type)) + " " +
                                  std::string(name_of(reduction)) + " " + std::to_string(count) +
                                  " seed=9";
        SCOPED_TRACE(words);
        const auto expected = tree(type, reduction, 9, count);
        expect_all_sha(crew_->all("all_reduce " + words), sha256(expected));
        const auto rooted = crew_->all("reduce " + words + " root=3");
        expect_all_ok(rooted);
        EXPECT_EQ(rooted[3].value("sha", ""), sha256(expected));
        for (const size_t r : {0, 2, 5}) EXPECT_TRUE(rooted[r].value("untouched", false));
      }
    }
  }
}

TEST_P(SharedHosts, MoveDataToItsPlace) {
  for (const uint64_t count : {5u, 70'000u}) {
    std::vector<std::byte> all;
    for (uint32_t r = 0; r < kWorld; ++r) {
      const auto one = make_tensor(ElementType::kI16, Values::kAny, Reduction::kCopy, 4, r, count);
      all.insert(all.end(), one.begin(), one.end());
    }
    const std::string words = "i16 copy " + std::to_string(count) + " seed=4";
    expect_all_sha(crew_->all("all_gather " + words), sha256(all));
    const auto root = make_tensor(ElementType::kI16, Values::kAny, Reduction::kCopy, 4, 4, count);
    expect_all_sha(crew_->all("broadcast " + words + " root=4"), sha256(root));
    const auto whole = tree(ElementType::kF32, Reduction::kSum, 6, count * kWorld);
    const auto parts = crew_->all("reduce_scatter f32 sum " + std::to_string(count) + " seed=6");
    expect_all_ok(parts);
    for (size_t r = 0; r < kWorld; ++r) {
      const auto part = std::span(whole).subspan(r * count * 4, count * 4);
      EXPECT_EQ(parts[r].value("sha", ""), sha256(part)) << r;
    }
    expect_all_ok(crew_->all("barrier"));
  }
}

/// Halves travel between hosts as f32, lossy formats as what they are: the same on all ranks.
TEST_P(SharedHosts, AgreeOnEveryRoundedResult) {
  for (const std::string words :
       {"f16 avg", "bf16 sum", "bf16 product", "f32 avg", "bool avg", "i8 avg"}) {
    SCOPED_TRACE(words);
    const auto answers = crew_->all("all_reduce " + words + " 50001 seed=3");
    expect_all_sha(answers, answers[0].value("sha", ""));
  }
  for (const std::string wire : {"bf16", "fp16", "int8", "fixed"}) {
    for (const std::string reduction : {"sum", "avg"}) {
      SCOPED_TRACE(wire + " " + reduction);
      const std::string words = "all_reduce f32 " + reduction + " 200003 seed=3 wire=" + wire;
      const auto answers = crew_->all(words);
      expect_all_sha(answers, answers[0].value("sha", ""));
      EXPECT_FALSE(answers[0].value("untouched", true));
    }
  }
}

TEST_P(SharedHosts, GroupsAcrossHostsAreLayoutsOfTheirOwn) {
  // Two ranks of the last host, then one of each other; a host alone; one rank of each host.
  for (const std::string ranks : {"5,4,0,3", "2,3", "0,2,4"}) {
    SCOPED_TRACE(ranks);
    std::vector<uint32_t> members;
    for (const char c : ranks) {
      if (c != ',') members.push_back(static_cast<uint32_t>(c - '0'));
    }
    const auto both = [&](const std::string& step) {
      for (const uint32_t r : members) (*crew_)[r].tell(step);
      std::vector<json> answers;
      for (const uint32_t r : members) answers.push_back((*crew_)[r].hear());
      return answers;
    };
    expect_all_ok(both("group g " + ranks));
    const auto answers = both("all_reduce f64 sum 100000 seed=1 group=g");
    expect_all_sha(answers, answers[0].value("sha", ""));
    expect_all_ok(both("all_reduce i32 max 10 seed=1 group=g"));
    expect_all_ok(both("close g"));
  }
}

TEST_P(SharedHosts, AMismatchBetweenHostsIsOneErrorOnAllRanks) {
  struct Pair {
    const char *most, *odd, *most_text, *odd_text;
  };
  int round = 0;
  for (const Pair& pair :
       {Pair{"all_reduce f32 sum 100", "all_reduce f32 sum 200", "f32[100]", "f32[200]"},
        Pair{"all_reduce f32 sum 300000", "all_reduce f32 sum 300001", "f32[300000]",
             "f32[300001]"},
        Pair{"all_reduce bf16 sum 1000", "all_reduce f32 sum 1000", "bf16[1000]", "f32[1000]"},
        Pair{"all_reduce f32 avg 1000", "all_reduce f32 sum 1000", "avg", "f32[1000] sum"}}) {
    SCOPED_TRACE(pair.odd);
    // On one host both ranks differ from the others; once also only one of them.
    const std::string group = " group=g" + std::to_string(round++);
    expect_all_ok(crew_->all("group " + group.substr(7) + " 0,1,2,3,4,5"));
    for (size_t r = 0; r < kWorld; ++r) {
      (*crew_)[r].tell((r / kPerHost == 1 ? pair.odd : pair.most) + group);
    }
    const auto answers = hear_but(kWorld);
    const std::string text = expect_one_error(answers, ErrorCode::kMismatch);
    EXPECT_THAT(text, HasSubstr(pair.most_text));
    EXPECT_THAT(text, HasSubstr(pair.odd_text));
    for (const json& answer : answers) EXPECT_TRUE(answer.value("untouched", false));
  }
  for (size_t r = 0; r < kWorld; ++r) {
    (*crew_)[r].tell(r == 3 ? "all_reduce f32 sum 11" : "all_reduce f32 sum 12");
  }
  EXPECT_THAT(expect_one_error(hear_but(kWorld), ErrorCode::kMismatch), HasSubstr("f32[11]"));
}

TEST_P(SharedHosts, ADeathIsNamedToAllWhicheverHostItIsOn) {
  // A leader of the coordinator's host is rank 0 itself; here a leader and a follower.
  for (const size_t victim : {2, 5}) {
    SCOPED_TRACE(victim);
    Crew crew(*hosts_, kWorld, kPerHost);
    expect_all_ok(crew.join(where() + " job=second" + std::to_string(victim)));
    crew.tell_all("loop f32 sum 2000000 timeout=120000");
    std::this_thread::sleep_for(300ms);
    crew[victim].process().send_signal(SIGKILL);
    std::vector<json> answers;
    for (size_t r = 0; r < kWorld; ++r) {
      if (r != victim) answers.push_back(crew[r].hear(kPatience));
    }
    EXPECT_THAT(expect_one_error(answers, ErrorCode::kAborted),
                HasSubstr("rank " + std::to_string(victim)));
  }
}

TEST_P(SharedHosts, ARankThatDoesNotCallIsNamed) {
  (*crew_)[3].tell("sleep 2500");
  for (size_t r = 0; r < kWorld; ++r) {
    if (r != 3) (*crew_)[r].tell("all_reduce f32 sum 50000 timeout=1000");
  }
  const auto answers = hear_but(3);
  EXPECT_THAT(expect_one_error(answers, ErrorCode::kTimeout),
              HasSubstr("waiting for 1 of 6 ranks: rank 3 (no operation yet)"));
  for (const json& answer : answers) EXPECT_TRUE(answer.value("untouched", false));
}

TEST_P(SharedHosts, GroupsComeAndGoWithoutATrace) {
  expect_all_ok(crew_->all("cycle first=0 count=20"));
  const auto before = crew_->all("facts");
  expect_all_ok(crew_->all("cycle first=20 count=" + std::to_string(by_length(50, 1000))));
  const auto after = crew_->all("facts");
  for (size_t r = 0; r < kWorld; ++r) {
    EXPECT_EQ(after[r]["descriptors"], before[r]["descriptors"]);
    EXPECT_EQ(after[r]["threads"], before[r]["threads"]);
    EXPECT_LE(after[r]["rss_kb"].get<int64_t>(), before[r]["rss_kb"].get<int64_t>() + 4096);
  }
}

INSTANTIATE_TEST_SUITE_P(Routes, SharedHosts, testing::Values(false, true), route_name);

}  // namespace
}  // namespace sumcast::acceptance

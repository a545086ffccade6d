// A8: the same inputs give the same bits, whatever the network does and however a tensor is cut.
#include "acceptance/site.h"
#include "acceptance/tensor.h"

namespace sumcast::acceptance {
namespace {

struct Weather {
  const char* name;
  double loss, duplicate, reorder;
};
constexpr Weather kWeathers[] = {{"fair", 0, 0, 0},
                                 {"lossy", 0.01, 0, 0},
                                 {"mixed", 0.02, 0.02, 0.05},
                                 {"foul", 0.05, 0.05, 0.1}};

std::string rank_faults(const Weather& weather, int seed) {
  return " loss=" + std::to_string(weather.loss) + " dup=" + std::to_string(weather.duplicate) +
         " reorder=" + std::to_string(weather.reorder) + " seed=" + std::to_string(seed);
}

std::vector<std::string> daemon_faults(const Weather& weather, int seed) {
  return {"--loss",    std::to_string(weather.loss),    "--dup",  std::to_string(weather.duplicate),
          "--reorder", std::to_string(weather.reorder), "--seed", std::to_string(seed)};
}

TEST(Determinism, OneDigestOverWeatherRunsRanksSplitsAndRoutes) {
  constexpr uint32_t kWorld = 3;
  const uint64_t count = by_length<uint64_t>(1 << 20, 16 << 20);
  const int calls = by_length(64, 1024);
  const int runs = by_length(1, 13);  // Times four weathers.
  const std::string words = "all_reduce f32 sum " + std::to_string(count) + " seed=42 ";
  const std::string expected = sha256(
      all_reduce_reference(ElementType::kF32, Values::kAny, Reduction::kSum, 42, kWorld, count));
  const auto hosts = loopback_hosts(kWorld);
  for (int run = 0; run < runs; ++run) {
    for (const Weather& weather : kWeathers) {
      for (const bool with_daemon : {false, true}) {
        SCOPED_TRACE(std::string(weather.name) + (with_daemon ? ", in-network" : ", direct"));
        DaemonProcess daemon(hosts, daemon_faults(weather, run + 1));
        Crew crew(hosts, kWorld);
        const std::string where = with_daemon ? at_aggregator(daemon) : at_coordinator(hosts);
        expect_all_ok(crew.join(where + rank_faults(weather, run + 1)));
        expect_all_sha(crew.all(words), expected);
        expect_all_sha(crew.all(words + "calls=" + std::to_string(calls)), expected);
      }
    }
  }
}

/// bf16 rounds at the end only, so its bits depend on the order even more than f32's do.
TEST(Determinism, HoldsForEveryFloatTypeAndForAverages) {
  const auto hosts = loopback_hosts(4);
  DaemonProcess daemon(hosts, daemon_faults(kWeathers[2], 5));
  Crew crew(hosts, 4);
  const std::string faults = rank_faults(kWeathers[2], 5);
  const std::string where = "aggregator=" + daemon.address() + " algorithm=auto";
  expect_all_ok(crew.join(where + faults));
  for (const ElementType type :
       {ElementType::kF16, ElementType::kBF16, ElementType::kF32, ElementType::kF64}) {
    for (const Reduction reduction : {Reduction::kSum, Reduction::kAvg, Reduction::kProduct}) {
      const std::string expected =
          sha256(all_reduce_reference(type, Values::kAny, reduction, 7, 4, 20'000));
      const std::string words = "all_reduce " + std::string(name_of(type)) + " " +
                                std::string(name_of(reduction)) + " 20000 seed=7 ";
      SCOPED_TRACE(words);
      expect_all_sha(crew.all(words + "algorithm=in-network"), expected);
      expect_all_sha(crew.all(words + "algorithm=direct"), expected);
      expect_all_sha(crew.all(words + "calls=16"), expected);
    }
  }
}

}  // namespace
}  // namespace sumcast::acceptance

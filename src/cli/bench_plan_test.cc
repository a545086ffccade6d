#include "cli/bench_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace sumcast::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string error_of(const BenchFlags& flags) {
  const Result<BenchPlan> plan = plan_bench(flags);
  return plan ? "" : plan.error().what;
}

std::vector<std::string> names_of(const BenchPlan& plan) {
  std::vector<std::string> names;
  for (const ContenderSpec& spec : plan.contenders) names.push_back(spec.name);
  return names;
}

TEST(BenchPlan, MeasuresThirtyTwoMebibytesInTheNetworkByDefault) {
  const BenchPlan plan = plan_bench({}).value();
  EXPECT_THAT(names_of(plan), ElementsAre("in-network"));
  ASSERT_EQ(plan.cases.size(), 1u);
  EXPECT_EQ(plan.cases[0].bytes, 32u << 20);
  EXPECT_EQ(plan.cases[0].count, 8u << 20);
  EXPECT_EQ(plan.cases[0].operations, 1u);
  EXPECT_TRUE(plan.needs_daemon());
  EXPECT_FALSE(plan.needs_server());
}

TEST(BenchPlan, StepsByFactorOrByAddition) {
  EXPECT_THAT(size_steps(8, 64, 1, 2), ElementsAre(8, 16, 32, 64));
  EXPECT_THAT(size_steps(8, 60, 1, 2), ElementsAre(8, 16, 32));
  EXPECT_THAT(size_steps(4, 12, 4, 0), ElementsAre(4, 8, 12));
  EXPECT_THAT(size_steps(5, 5, 1, 0), ElementsAre(5));
}

TEST(BenchPlan, CountsWholeElementsAndWholeParts) {
  const auto reduce = make_case(Collective::kAllReduce, ElementType::kF64, Reduction::kSum,
                                WireFormat::kNative, 0, 30, 4);
  EXPECT_EQ(reduce.count, 3u);
  EXPECT_EQ(reduce.bytes, 24u);
  const auto gather = make_case(Collective::kAllGather, ElementType::kF32, Reduction::kCopy,
                                WireFormat::kNative, 0, 1000, 3);
  EXPECT_EQ(gather.count, 80u);  // 333 bytes are 20 times 16.
  EXPECT_EQ(gather.bytes, 960u);
  const auto tiny = make_case(Collective::kReduceScatter, ElementType::kF32, Reduction::kSum,
                              WireFormat::kNative, 0, 8, 4);
  EXPECT_EQ(tiny.count, 1u);
  const auto barrier = make_case(Collective::kBarrier, ElementType::kF32, Reduction::kCopy,
                                 WireFormat::kNative, 0, 8, 4);
  EXPECT_EQ(barrier.bytes, 0u);
}

TEST(BenchPlan, RunsSmallTensorsInBlocks) {
  BenchFlags flags;
  flags.bytes_min = "8";
  flags.bytes_max = "64K";
  flags.step_factor = 8192;
  const BenchPlan plan = plan_bench(flags).value();
  ASSERT_EQ(plan.cases.size(), 2u);
  EXPECT_EQ(plan.cases[0].operations, kBlockOperations);
  EXPECT_EQ(plan.cases[1].operations, 1u);
}

TEST(BenchPlan, ADensityIsAShare) {
  BenchFlags flags;
  flags.density = 0.05;
  EXPECT_EQ(plan_bench(flags)->cases[0].density_millionths, 50'000u);
  for (const double wrong : {-0.1, 1.5, std::nan("")}) {
    flags.density = wrong;
    const auto plan = plan_bench(flags);
    ASSERT_FALSE(plan);
    EXPECT_THAT(plan.error().what, HasSubstr("--density"));
  }
}

TEST(BenchPlan, TakesSeveralAlgorithmsAndPeersAndRefersToTheFirstPeer) {
  BenchFlags flags;
  flags.algorithms = "in-network,direct,server,wire";
  flags.peers = "gloo:ring,openmpi";
  const BenchPlan plan = plan_bench(flags).value();
  EXPECT_THAT(names_of(plan),
              ElementsAre("in-network", "direct", "server", "wire", "gloo:ring", "openmpi"));
  EXPECT_EQ(plan.reference, "gloo:ring");
  EXPECT_EQ(plan.contenders[4].peer_algorithm, "ring");
  EXPECT_TRUE(plan.needs_server());
  flags.peers.clear();
  EXPECT_EQ(plan_bench(flags)->reference, "wire");
}

TEST(BenchPlan, MeasuresPeersAloneIfOnlyPeersAreNamed) {
  BenchFlags flags;
  flags.peers = "mpich";
  EXPECT_THAT(names_of(plan_bench(flags).value()), ElementsAre("mpich"));
}

TEST(BenchPlan, SweepsAllTypesAndOperationsThatGoTogether) {
  BenchFlags flags;
  flags.bytes_min = "1K";
  flags.op = "all";
  flags.type = "all";
  EXPECT_EQ(plan_bench(flags)->cases.size(), 8u * 5u);
  flags.wire = "bf16";  // f32 only, all but none of the five.
  EXPECT_EQ(plan_bench(flags)->cases.size(), 5u);
}

TEST(BenchPlan, RefusesWithALineThatNamesTheFlag) {
  const auto with = [](auto change) {
    BenchFlags flags;
    change(flags);
    return error_of(flags);
  };
  EXPECT_THAT(with([](BenchFlags& f) { f.bytes_min = "0"; }), HasSubstr("-b \"0\""));
  EXPECT_THAT(with([](BenchFlags& f) { f.bytes_max = "1K"; }), HasSubstr("-e"));
  EXPECT_THAT(with([](BenchFlags& f) { f.step_factor = 1; }), HasSubstr("-f"));
  EXPECT_THAT(with([](BenchFlags& f) { f.iterations = 0; }), HasSubstr("-n"));
  EXPECT_THAT(with([](BenchFlags& f) { f.op = "mul"; }), HasSubstr("prod"));
  EXPECT_THAT(with([](BenchFlags& f) { f.type = "quad"; }), HasSubstr("bfloat16"));
  EXPECT_THAT(with([](BenchFlags& f) { f.root = "4"; }), HasSubstr("a rank below 4"));
  EXPECT_THAT(with([](BenchFlags& f) { f.rate = "300"; }), HasSubstr("300mbit"));
  EXPECT_THAT(with([](BenchFlags& f) { f.workers = 257; }), HasSubstr("1 to 256"));
  EXPECT_THAT(with([](BenchFlags& f) { f.loss = 1.5; }), HasSubstr("loss"));
  EXPECT_THAT(with([](BenchFlags& f) { f.delay = "3"; }), HasSubstr("--delay"));
  EXPECT_THAT(with([](BenchFlags& f) { f.skew = "2s"; }), HasSubstr("--skew"));
  EXPECT_THAT(with([](BenchFlags& f) { f.algorithms = "tree"; }), HasSubstr("halving-doubling"));
  EXPECT_THAT(with([](BenchFlags& f) { f.algorithms = "ring,ring"; }), HasSubstr("twice"));
  EXPECT_THAT(with([](BenchFlags& f) { f.peers = "nccl"; }), HasSubstr("mpich"));
  EXPECT_THAT(with([](BenchFlags& f) { f.collective = "all2all"; }), HasSubstr("all_gather"));
  EXPECT_THAT(with([](BenchFlags& f) { f.reference = "gloo"; }), HasSubstr("in-network"));
  EXPECT_THAT(with([](BenchFlags& f) { f.rate = "1kbit"; }), HasSubstr("at least 1mbit"));
  EXPECT_THAT(with([](BenchFlags& f) { f.daemon_cpus = "0;rm"; }), HasSubstr("--cpu"));
  EXPECT_THAT(with([](BenchFlags& f) { f.daemon_cpus = "0,9999"; }), HasSubstr("processors 0 to"));
  EXPECT_THAT(with([](BenchFlags& f) { f.json_file = "/absent/out.json"; }),
              HasSubstr("-J: cannot write /absent/out.json: there is no directory /absent"));
  EXPECT_THAT(with([](BenchFlags& f) { f.devices_per_thread = 2; }), HasSubstr("-g"));
}

TEST(BenchPlan, RefusesWhatDoesNotGoTogether) {
  BenchFlags flags;
  flags.type = "double";
  flags.wire = "bf16";
  EXPECT_THAT(error_of(flags), HasSubstr("not offered"));
  flags.wire = "fp32";
  flags.op = "xor";
  EXPECT_THAT(error_of(flags), HasSubstr("xor of double"));
  BenchFlags lossy;
  lossy.peers = "gloo";
  lossy.loss = 0.01;
  EXPECT_THAT(error_of(lossy), HasSubstr("own transport"));
  BenchFlags skewed;
  skewed.algorithms = "direct,wire";
  skewed.skew = "10ms";
  EXPECT_THAT(error_of(skewed), HasSubstr("wire: --skew"));
  skewed.algorithms = "direct";
  EXPECT_EQ(plan_bench(skewed)->skew, 10ms);
  BenchFlags typed;
  typed.peers = "gloo";
  typed.type = "double";
  EXPECT_THAT(error_of(typed), HasSubstr("float, sum and root 0"));
  BenchFlags looped;
  looped.loopback = true;
  looped.rate = "1gbit";
  EXPECT_THAT(error_of(looped), HasSubstr("--loopback"));
  BenchFlags moved;
  moved.algorithms = "wire";
  moved.collective = "broadcast";
  EXPECT_THAT(error_of(moved), HasSubstr("all_reduce"));
}

}  // namespace
}  // namespace sumcast::cli

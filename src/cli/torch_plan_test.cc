#include "cli/torch_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sumcast::cli {
namespace {

using testing::HasSubstr;

TEST(TorchPlan, ReadsContendersAndTheirWireFormats) {
  const auto all = torch_contenders("gloo,in-network:bf16,direct");
  ASSERT_TRUE(all);
  ASSERT_EQ(all->size(), 3u);
  EXPECT_EQ((*all)[0].backend, "gloo");
  EXPECT_EQ((*all)[1].backend, "sumcast");
  EXPECT_EQ((*all)[1].algo, "in-network");
  EXPECT_EQ((*all)[1].wire, "bf16");
  EXPECT_EQ((*all)[2].wire, "fp32");
}

TEST(TorchPlan, NamesTheWordThatIsNone) {
  for (const char* list : {"gloo,nccl", "in-network:bf17", "gloo:bf16", "direct:native"}) {
    const auto all = torch_contenders(list);
    ASSERT_FALSE(all) << list;
    EXPECT_THAT(all.error().what,
                HasSubstr(std::string(list).substr(std::string(list).find(',') + 1)));
  }
  EXPECT_FALSE(torch_contenders(""));
  const auto models = torch_models("resnet18,vgg");
  ASSERT_FALSE(models);
  EXPECT_THAT(models.error().what, HasSubstr("\"vgg\""));
}

TEST(TorchPlan, WeightsThatDifferAreAnError) {
  const auto good =
      torch_row_from_line(R"({"step_us": 12.5, "exposed_comm_us": 3, "identical": true})");
  ASSERT_TRUE(good);
  EXPECT_EQ(good->step_us, 12.5);
  const auto bad =
      torch_row_from_line(R"({"step_us": 12.5, "exposed_comm_us": 3, "identical": false})");
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code, ErrorCode::kMismatch);
  EXPECT_FALSE(torch_row_from_line("Traceback"));
  EXPECT_FALSE(torch_row_from_line("{}"));
}

TEST(TorchPlan, PrintsRowsAndRatios) {
  TorchRow gloo, ours;
  gloo.model = ours.model = "resnet18";
  gloo.contender = {"gloo", "gloo", "fp32"};
  ours.contender = {"sumcast", "in-network", "bf16"};
  gloo.exposed_comm_us = 3000;
  ours.exposed_comm_us = 1000;
  ours.ranks = 4;
  EXPECT_THAT(torch_table({gloo, ours}), HasSubstr("3.00x"));
  EXPECT_EQ(
      to_json_line(ours),
      R"({"model":"resnet18","backend":"sumcast","algo":"in-network","wire":"bf16","ranks":4,)"
      R"("hosts":0,"rate_bps":0.0,"step_us":0.0,"exposed_comm_us":1000.0})");
}

}  // namespace
}  // namespace sumcast::cli

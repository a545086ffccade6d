#include "cli/demo_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sumcast::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> names(const std::vector<DemoMethod>& methods) {
  std::vector<std::string> out;
  for (const DemoMethod& method : methods) out.emplace_back(method.name);
  return out;
}

TEST(DemoOptions, DefaultsAreValidAndRunAllMethods) {
  const DemoOptions options;
  EXPECT_THAT(options.validate(), IsEmpty());
  EXPECT_THAT(names(options.chosen_methods()),
              ElementsAre("in-network", "in-network-bf16", "direct", "ring", "server"));
  EXPECT_EQ(options.rate_bits_per_second(), 1'000'000'000u);
  EXPECT_EQ(options.command_line(), "sumcast demo");
}

TEST(DemoOptions, ChosenMethodsRunInTheOrderOfTheTableOnceEach) {
  DemoOptions options;
  options.methods = {"ring", "in-network", "ring"};
  EXPECT_THAT(names(options.chosen_methods()), ElementsAre("in-network", "ring"));
}

TEST(DemoOptions, AWidthIsANumberOrChosenAndThenNoPromisesAreMade) {
  DemoOptions options;
  options.width = "auto";
  options.auto_wire = true;
  EXPECT_THAT(options.validate(), IsEmpty());
  EXPECT_EQ(options.width_number(), 0u);
  EXPECT_EQ(options.command_line(), "sumcast demo --width auto --auto-wire");
  EXPECT_FALSE(options.full_size(60'000));
  for (const DemoMethod& method : options.chosen_methods()) EXPECT_FALSE(method.canonical);
  options.width = "2";
  EXPECT_THAT(options.validate(), ElementsAre("--auto-wire needs --width auto"));
  options.auto_wire = false;
  EXPECT_EQ(options.width_number(), 2u);
  EXPECT_TRUE(options.chosen_methods()[0].canonical);
  for (const char* wrong : {"", "0", "9", "12", "-1", "two"}) {
    options.width = wrong;
    EXPECT_THAT(options.validate(), ElementsAre(HasSubstr("--width must be 1 to 8 or auto, not")));
  }
}

TEST(DemoOptions, EveryProblemIsNamedInOneGo) {
  DemoOptions options;
  options.workers = 1;
  options.epochs = 0;
  options.batch = 0;
  options.rate = "fast";
  options.images = -1;
  options.methods = {"ringo"};
  options.report = "/no/such/place/report.html";
  EXPECT_THAT(
      options.validate(),
      ElementsAre(HasSubstr("--workers must be 2 to 64, not 1"), HasSubstr("--epochs"),
                  HasSubstr("--batch"), HasSubstr("--images"), HasSubstr("--rate: "),
                  HasSubstr("no method \"ringo\"; choose from in-network, in-network-bf16"),
                  HasSubstr("--report: cannot write /no/such/place/report.html: there is no "
                            "directory /no/such/place")));
}

TEST(DemoOptions, RefusesImagesThatDoNotFillOneStepAndReportsOverDirectories) {
  DemoOptions options;
  options.images = 511;
  options.report = testing::TempDir();
  EXPECT_THAT(options.validate(),
              ElementsAre(HasSubstr("give at least 512"), HasSubstr("that is a directory")));
  options.images = 512;
  options.report = testing::TempDir() + "/page.html";
  EXPECT_THAT(options.validate(), IsEmpty());
}

TEST(DemoOptions, CountsStepsAndKnowsTheFullRun) {
  DemoOptions options;
  EXPECT_EQ(options.steps(60'000), 3u * 117);
  EXPECT_TRUE(options.full_size(60'000));
  EXPECT_FALSE(options.full_size(59'999));
  options.images = 5'120;
  EXPECT_EQ(options.steps(60'000), 3u * 10);
  EXPECT_FALSE(options.full_size(60'000));
  options.images = 0;
  options.epochs = 2;
  EXPECT_FALSE(options.full_size(60'000));
  options.epochs = 4;
  EXPECT_TRUE(options.full_size(60'000));
  options.batch = 129;
  EXPECT_FALSE(options.full_size(60'000));
}

TEST(DemoOptions, TheCommandLineSaysWhatDiffersAndQuotesForAShell) {
  DemoOptions options;
  options.workers = 8;
  options.methods = {"ring", "direct"};
  options.report = "my page's.html";
  options.loopback = true;
  EXPECT_EQ(options.command_line(),
            "sumcast demo --workers 8 --method ring,direct --report 'my page'\\''s.html' "
            "--loopback");
}

}  // namespace
}  // namespace sumcast::cli

#include "cli/demo_print.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace sumcast::cli {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

MethodOutcome outcome_of(const char* name, uint64_t hash) {
  MethodOutcome outcome;
  outcome.method = demo_method_from_name(name).value();
  outcome.step = 61'300us;
  outcome.communication = 24'500us;
  outcome.bytes_per_worker = 2'774'000;
  outcome.accuracy = 0.8842;
  outcome.losses = {2.3f, 0.4f};
  outcome.gradient_bytes = 2'678'824;
  outcome.weights = {hash, hash, hash, hash};
  return outcome;
}

std::vector<MethodOutcome> three() {
  return {outcome_of("in-network", 0xAB), outcome_of("direct", 0xAB), outcome_of("ring", 0xCD)};
}

DemoSetting setting() {
  DemoSetting setting;
  setting.training_images = 60'000;
  setting.cores = 2;
  setting.cpu = "Some CPU";
  return setting;
}

TEST(DemoPrint, TheTableShowsEachMethodAndWhichWeightsAreTheSameBits) {
  const std::string text = demo_table(three());
  EXPECT_THAT(text, HasSubstr("time per step"));
  EXPECT_THAT(text, HasSubstr("61.3 ms"));
  EXPECT_THAT(text, HasSubstr("24.5 ms"));
  EXPECT_THAT(text, HasSubstr("2.77 MB"));
  EXPECT_THAT(text, HasSubstr("88.42 %"));
  EXPECT_THAT(text, HasSubstr("bit-identical on all 4 workers, with every method\n"));
  EXPECT_THAT(text, HasSubstr("bit-identical across in-network and direct (00000000000000ab)\n"));
}

TEST(DemoPrint, TheTableClaimsNothingThatIsNotSo) {
  std::vector<MethodOutcome> all = three();
  all[1] = outcome_of("direct", 0xEF);
  all[2].weights[3] = 0;
  all[2].bytes_per_worker.reset();
  EXPECT_THAT(demo_table(all), Not(HasSubstr("bit-identical")));
  EXPECT_THAT(demo_table(all), HasSubstr("  -  "));
}

TEST(DemoPrint, AJsonRowHasTheFieldsThatScriptsRead) {
  const auto all = three();
  const std::string line = demo_json(all[1], all);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const auto row = nlohmann::json::parse(line);
  EXPECT_EQ(row.at("method"), "direct");
  EXPECT_EQ(row.at("step_us"), 61'300.0);
  EXPECT_EQ(row.at("comm_us"), 24'500.0);
  EXPECT_EQ(row.at("bytes_per_worker"), 2'774'000);
  EXPECT_EQ(row.at("accuracy"), 88.42);
  EXPECT_EQ(row.at("weights_hash"), "00000000000000ab");
  EXPECT_EQ(row.at("identical"), true);
  MethodOutcome uncounted = all[2];
  uncounted.bytes_per_worker.reset();
  EXPECT_TRUE(nlohmann::json::parse(demo_json(uncounted, all)).at("bytes_per_worker").is_null());
}

TEST(DemoPrint, TheReportSaysWhatItsReaderMustKnow) {
  DemoOptions options;
  options.images = 1024;
  DemoSetting at = setting();
  report::DemoReportData data = demo_report_data(options, at, three());
  EXPECT_EQ(data.parameters, 669'706u);
  EXPECT_EQ(data.training_images, 1024u);
  EXPECT_EQ(data.link_bits_per_second, 1e9);
  EXPECT_EQ(data.methods.size(), 3u);
  EXPECT_EQ(data.command_line, "sumcast demo --images 1024");
  EXPECT_THAT(data.caveats, Contains(HasSubstr("4 workers share 2 cores")));

  at.loopback_notice = "no network namespaces (because)";
  at.cores = 8;
  data = demo_report_data(options, at, three());
  EXPECT_EQ(data.link_bits_per_second, 0.0);
  EXPECT_THAT(data.caveats, Contains("no network namespaces (because)"));
  EXPECT_THAT(data.caveats, Not(Contains(HasSubstr("share"))));
}

}  // namespace
}  // namespace sumcast::cli

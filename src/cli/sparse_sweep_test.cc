#include "cli/sparse_sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "cli/pslite_crew.h"

namespace sumcast::cli {
namespace {

using ::testing::HasSubstr;

SweepResult some(uint32_t workers, double servers_us, double dual_us) {
  return {{workers, 1, 256, 16}, servers_us, dual_us, 0.5};
}

TEST(SparseSweep, CoversTwoToSixteenWorkersAndOneToFourServersOnce) {
  const auto cells = sweep_cells();
  const SweepCell largest = {16, 4, 256, 64}, smallest = {2, 1, 64, 16};
  EXPECT_EQ(std::ranges::count(cells, largest), 1);
  EXPECT_EQ(std::ranges::count(cells, smallest), 1);
  for (const SweepCell& cell : cells) EXPECT_EQ(std::ranges::count(cells, cell), 1);
}

TEST(SparseSweep, LinesAreReadBackAndThoseOfOtherSettingsRefused) {
  SparseFlags flags;
  const std::string line = to_json_line(some(8, 3000, 1500), flags);
  const auto back = sweep_result_from_line(line, flags);
  ASSERT_TRUE(back.has_value()) << back.error().what;
  EXPECT_EQ(back->cell, (SweepCell{8, 1, 256, 16}));
  EXPECT_EQ(back->ratio(), 2.0);
  flags.rate = "100mbit";
  EXPECT_THAT(sweep_result_from_line(line, flags).error().what, HasSubstr("measured with rate"));
  EXPECT_THAT(sweep_result_from_line("{", flags).error().what, HasSubstr("no line of a sweep"));
}

TEST(SparseSweep, TheTableSaysWhereItPaysAndWhereNot) {
  const std::string text = sweep_table({some(2, 1000, 1250), some(8, 3000, 1500)}, {});
  EXPECT_THAT(text, HasSubstr("best: 8 workers, 1 server, batch 256, width 16, 2.00x; it pays in "
                              "1 of 2, least of all with 2 workers"));
}

TEST(SparsePlan, EachStalenessIsAStageWithoutWhatIsSynchronousOnly) {
  SparseFlags flags;
  flags.staleness_list = "0,3";
  flags.peer = "pslite=/somewhere";
  const auto stages = sparse_stages(flags);
  ASSERT_TRUE(stages.has_value());
  ASSERT_EQ(stages->size(), 2u);
  EXPECT_EQ((*stages)[0].paths, flags.paths);
  EXPECT_EQ((*stages)[0].peer, flags.peer);
  EXPECT_EQ((*stages)[1].staleness, 3u);
  EXPECT_EQ((*stages)[1].paths, "servers,dual,auto");
  EXPECT_EQ((*stages)[1].peer, "");
  EXPECT_EQ(sparse_options((*stages)[1])->staleness, 3u);
  for (const char* const wrong : {"", "1,", "two", "-1", "1 2"}) {
    flags.staleness_list = wrong;
    EXPECT_THAT(sparse_stages(flags).error().what, HasSubstr("--staleness")) << wrong;
  }
  flags.staleness_list = "1";
  flags.paths = "forward";
  EXPECT_THAT(sparse_stages(flags).error().what, HasSubstr("0 with --path forward"));
}

TEST(PsLite, WhatThePeerCannotDoIsSaid) {
  const auto refusal = [](const SparseFlags& flags) {
    const auto directory = pslite_directory(flags);
    return directory ? *directory : directory.error().what;
  };
  SparseFlags flags;
  flags.peer = "pslite=/some/where";
  EXPECT_EQ(refusal(flags), "/some/where");
  flags.optimizer = "adam";
  EXPECT_THAT(refusal(flags), HasSubstr("adagrad"));
  flags.peer = "byteps=/x";
  EXPECT_THAT(refusal(flags), HasSubstr("pslite=DIR"));
}

}  // namespace
}  // namespace sumcast::cli

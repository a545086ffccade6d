#include "runtime/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

namespace sumcast::runtime {
namespace {

using ::testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

EnvironmentLookup from(Variables variables) {
  return [variables](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

LaunchedRank rank_in(const Variables& variables) {
  const auto launched = launched_rank(from(variables));
  if (!launched || !*launched) {
    ADD_FAILURE() << (launched ? "no launcher found" : launched.error().what);
    return {};
  }
  return **launched;
}

std::string error_in(const Variables& variables) {
  const auto launched = launched_rank(from(variables));
  return launched ? "no error" : launched.error().what;
}

void expect_rank(const LaunchedRank& got, uint32_t rank, uint32_t world, uint32_t local,
                 const char* source) {
  EXPECT_EQ(got.rank, rank);
  EXPECT_EQ(got.world, world);
  EXPECT_EQ(got.local_rank, local);
  EXPECT_EQ(got.source, source);
}

TEST(Environment, AnEmptyVariableCountsAsUnset) {
  ::setenv("SUMCAST_TEST_VARIABLE", "x", 1);
  EXPECT_EQ(environment("SUMCAST_TEST_VARIABLE"), "x");
  ::setenv("SUMCAST_TEST_VARIABLE", "", 1);
  EXPECT_EQ(environment("SUMCAST_TEST_VARIABLE"), std::nullopt);
  ::unsetenv("SUMCAST_TEST_VARIABLE");
  EXPECT_EQ(environment("SUMCAST_TEST_VARIABLE"), std::nullopt);
}

TEST(Environment, EveryLauncherIsUnderstood) {
  expect_rank(rank_in({{"RANK", "5"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}}), 5, 8, 1,
              "torchrun");
  expect_rank(rank_in({{"OMPI_COMM_WORLD_RANK", "2"},
                       {"OMPI_COMM_WORLD_SIZE", "4"},
                       {"OMPI_COMM_WORLD_LOCAL_RANK", "2"}}),
              2, 4, 2, "Open MPI");
  expect_rank(rank_in({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}), 0, 1, 0, "MPICH");
  expect_rank(rank_in({{"PMIX_RANK", "3"}, {"SLURM_NTASKS", "4"}, {"SLURM_LOCALID", "1"}}), 3, 4, 1,
              "PMIx");
  expect_rank(rank_in({{"SLURM_PROCID", "7"}, {"SLURM_NTASKS", "16"}, {"SLURM_LOCALID", "3"}}), 7,
              16, 3, "Slurm");
}

TEST(Environment, LaunchersTellTheirJobsApart) {
  const auto job_in = [](const std::map<std::string, std::string>& variables) {
    return rank_in(variables).job;
  };
  EXPECT_EQ(job_in({{"OMPI_COMM_WORLD_RANK", "0"},
                    {"OMPI_COMM_WORLD_SIZE", "2"},
                    {"PMIX_NAMESPACE", "1346568193"},
                    {"SLURM_JOB_ID", "7"}}),
            "mpi-1346568193");
  EXPECT_EQ(
      job_in({{"PMIX_RANK", "0"}, {"SLURM_NTASKS", "2"}, {"PMIX_NAMESPACE", "slurm.pmix.7.1"}}),
      "pmix-slurm.pmix.7.1");
  const std::map<std::string, std::string> slurm = {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}};
  EXPECT_EQ(job_in(slurm), "");
  auto numbered = slurm;
  numbered["SLURM_JOB_ID"] = "7";
  EXPECT_EQ(job_in(numbered), "slurm-7");
  numbered["SLURM_STEP_ID"] = "1";
  EXPECT_EQ(job_in(numbered), "slurm-7.1");
  EXPECT_EQ(job_in({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"SLURM_JOB_ID", "7"}}), "");
}

TEST(Environment, ALauncherInsideAnAllocationIsBelieved) {
  expect_rank(rank_in({{"SLURM_PROCID", "0"},
                       {"SLURM_NTASKS", "2"},
                       {"OMPI_COMM_WORLD_RANK", "3"},
                       {"OMPI_COMM_WORLD_SIZE", "4"},
                       {"RANK", "6"},
                       {"WORLD_SIZE", "8"}}),
              6, 8, 0, "torchrun");
}

TEST(Environment, NoLauncherIsNoError) {
  const auto nothing = launched_rank(from({}));
  ASSERT_TRUE(nothing);
  EXPECT_FALSE(*nothing);
  // A batch script of Slurm is no rank.
  const auto script = launched_rank(from({{"SLURM_PROCID", "0"}}));
  ASSERT_TRUE(script);
  EXPECT_FALSE(*script);
}

TEST(Environment, MalformedValuesNameTheirVariable) {
  EXPECT_EQ(error_in({{"RANK", "two"}, {"WORLD_SIZE", "4"}}),
            "environment variable RANK='two' should be a number from 0 to 32767");
  EXPECT_THAT(error_in({{"RANK", "0"}, {"WORLD_SIZE", "0"}}), HasSubstr("WORLD_SIZE='0'"));
  EXPECT_THAT(error_in({{"RANK", "-1"}, {"WORLD_SIZE", "4"}}), HasSubstr("RANK='-1'"));
  EXPECT_THAT(error_in({{"PMI_RANK", "0"}, {"PMI_SIZE", "32768"}}), HasSubstr("PMI_SIZE='32768'"));
  EXPECT_THAT(error_in({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "x"}}),
              HasSubstr("LOCAL_RANK='x'"));
}

TEST(Environment, ARankMustFitItsWorld) {
  EXPECT_EQ(error_in({{"PMI_RANK", "4"}, {"PMI_SIZE", "4"}}),
            "environment variable PMI_RANK=4 should be below PMI_SIZE=4");
  EXPECT_EQ(error_in({{"RANK", "4"}}),
            "environment variable RANK is set but WORLD_SIZE is not; set both or neither");
}

TEST(Environment, TheMasterHasAnAddressAndAPort) {
  const auto endpoint = master_endpoint(from({{"MASTER_ADDR", "node0"}, {"MASTER_PORT", "1234"}}));
  ASSERT_TRUE(endpoint && *endpoint);
  EXPECT_EQ((*endpoint)->host, "node0");
  EXPECT_EQ((*endpoint)->port, 1234);
  EXPECT_EQ((*master_endpoint(from({{"MASTER_ADDR", "::1"}})))->port, 29500);
  EXPECT_FALSE(*master_endpoint(from({{"MASTER_PORT", "1234"}})));
  const auto wrong = master_endpoint(from({{"MASTER_ADDR", "a"}, {"MASTER_PORT", "65536"}}));
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().what, HasSubstr("MASTER_PORT='65536'"));
}

}  // namespace
}  // namespace sumcast::runtime

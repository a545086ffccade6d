// Launches shell scripts rather than MPI programs: the launchers do not mind, and where a rank runs
// can be asked of any process. Skips where namespaces or a launcher are missing.
#include "lab/mpi_launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <set>
#include <sstream>

#include "lab/privileges.h"

namespace sumcast::lab {
namespace {

using testing::HasSubstr;

class MpiLaunchTest : public testing::TestWithParam<MpiKind> {
 protected:
  void SetUp() override {
    const char* const launcher =
        GetParam() == MpiKind::kOpenMpi ? "mpirun.openmpi" : "mpiexec.hydra";
    if (!find_program(launcher)) GTEST_SKIP() << launcher << " is not installed";
    if (const Result<void> entered = enter_user_namespace_if_needed(); !entered) {
      GTEST_SKIP() << entered.error().what;
    }
    if (const auto why = why_no_namespaces()) GTEST_SKIP() << *why;
  }

  // Runs a shell script as every rank and returns what all of them printed.
  static std::string output_of(const Cluster& cluster, const std::string& script) {
    MpiJob job;
    job.kind = GetParam();
    job.argv = {"/bin/sh", "-c", script};
    job.spawning.output = Redirect::pipe();
    Result<Process> run = spawn_mpi(cluster, job);
    if (!run) return run.error().what;
    const std::string output = run->read_output(60s).value_or("no end of output");
    EXPECT_TRUE(run->wait(60s).value().ok()) << output;
    return output;
  }
};

TEST_P(MpiLaunchTest, RunsEveryRankInItsOwnWorkersNamespace) {
  ClusterOptions options;
  options.workers = 3;
  const Cluster cluster = Cluster::build(options).value();
  std::istringstream output(output_of(
      cluster, "echo ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} $(stat -L -c %i /proc/self/ns/net)"));
  std::set<int> ranks;
  int rank = -1;
  for (ino_t where = 0; output >> rank >> where;) {
    struct stat expected {};
    ASSERT_EQ(::stat(cluster.namespace_path(Node::of_worker(rank)).c_str(), &expected), 0);
    EXPECT_EQ(where, expected.st_ino) << "rank " << rank;
    ranks.insert(rank);
  }
  EXPECT_EQ(ranks, (std::set<int>{0, 1, 2}));
}

TEST_P(MpiLaunchTest, FeedsRankZeroFromStandardInput) {
  ClusterOptions options;
  options.workers = 2;
  const Cluster cluster = Cluster::build(options).value();
  MpiJob job;
  job.kind = GetParam();
  job.argv = {"/bin/sh", "-c",
              "[ ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} != 0 ] || { read word; echo got $word; }"};
  job.spawning.input = Redirect::pipe();
  job.spawning.output = Redirect::pipe();
  Process run = spawn_mpi(cluster, job).value();
  ASSERT_TRUE(run.write_input("hello\n"));
  EXPECT_EQ(run.read_line(60s).value(), "got hello");
}

TEST_P(MpiLaunchTest, NamesTheAlgorithmsItHasWhenAskedForAnother) {
  const Cluster cluster = Cluster::on_loopback({}).value();
  MpiJob job;
  job.kind = GetParam();
  job.argv = {"true"};
  job.algorithm = "carrier-pigeon";
  const auto run = spawn_mpi(cluster, job);
  ASSERT_FALSE(run);
  EXPECT_EQ(run.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(run.error().what, HasSubstr("ring"));
  EXPECT_EQ(mpi_algorithms(GetParam()).front(), "auto");
}

TEST_P(MpiLaunchTest, RunsOnLoopbackToo) {
  ClusterOptions options;
  options.workers = 2;
  const Cluster cluster = Cluster::on_loopback(options).value();
  EXPECT_EQ(output_of(cluster, "echo here"), "here\nhere\n");
}

INSTANTIATE_TEST_SUITE_P(BothLibraries, MpiLaunchTest,
                         testing::Values(MpiKind::kOpenMpi, MpiKind::kMpich),
                         [](const auto& entry) {
                           return entry.param == MpiKind::kOpenMpi ? "OpenMpi" : "Mpich";
                         });

}  // namespace
}  // namespace sumcast::lab

// Checkpoints: files, what they hold, and jobs that go on from them.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "sparse/rows_file.h"
#include "sparse/test_job.h"

namespace sumcast::sparse {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Checkpoints : public ::testing::Test {
 protected:
  Checkpoints()
      : directory_(testing::TempDir() + "sparse_" + std::to_string(::getpid()) + "_" +
                   testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(directory_);
    fs::create_directories(directory_);
  }
  ~Checkpoints() override { fs::remove_all(directory_); }

  std::string path(const std::string& name) const { return directory_ + "/" + name; }
  std::set<std::string> names() const {
    std::set<std::string> all;
    for (const auto& entry : fs::directory_iterator(directory_)) {
      all.insert(entry.path().filename());
    }
    return all;
  }
  Manifest manifest() const { return read_manifest(directory_).value().value(); }

  const std::string directory_;
};

/// Steps `from` to `to`, with a checkpoint after every step, every third one full.
void train(Worker& worker, uint32_t rank, uint32_t from, uint32_t to, size_t hot) {
  ASSERT_TRUE(worker.set_hot(hot_keys(hot)));
  std::vector<uint64_t> keys = batch(rank, from);
  ASSERT_TRUE(worker.pull(keys));
  for (uint32_t round = from; round < to; ++round) {
    const std::vector<float> gradients = gradients_of(worker, rank, round, keys);
    const std::vector<uint64_t> next = batch(rank, round + 1);
    ASSERT_TRUE(worker.push_pull(gradients.data(), next));
    keys = next;
    auto saved = worker.save(round % 3 == 0, std::to_string(round + 1));
    ASSERT_TRUE(saved.has_value()) << saved.error().what;
  }
}

void run_steps(Options options, const std::string& directory, uint32_t from, uint32_t to,
               size_t hot) {
  options.checkpoint_directory = directory;
  if (from != 0) options.restore = read_manifest(directory).value();
  const auto errors =
      run_job(options, [&](Worker& worker, uint32_t rank) { train(worker, rank, from, to, hot); });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

/// Rows of a checkpoint, with their state.
Rows rows_in(const std::string& directory, const Options& options) {
  const Manifest manifest = read_manifest(directory).value().value();
  const size_t lanes = options.shape.record_lanes();
  Rows rows;
  for (const SavedPart& part : manifest.parts) {
    for (const SavedFile& file : part.files) {
      auto read =
          read_rows(directory, file, options.shape,
                    [&](std::span<const uint64_t> keys, const float* records) {
                      for (size_t i = 0; i < keys.size(); ++i) {
                        rows[keys[i]].assign(records + i * lanes, records + (i + 1) * lanes);
                      }
                      return Result<void>();
                    });
      EXPECT_TRUE(read.has_value()) << read.error().what;
    }
  }
  return rows;
}

TEST_F(Checkpoints, AnotherNumberOfServersAndAnotherHotSetGoOnWithTheSameBits) {
  Options options = small(3, 2, table::OptimizerKind::kAdam);
  run_steps(options, directory_, 0, 5, 20);  // The last one: full after step 4, increment after 5.
  EXPECT_EQ(manifest().parts.size(), 2u);
  EXPECT_TRUE(manifest().parts[0].full);
  EXPECT_EQ(read_state(directory_, manifest()).value(), "5");
  options.servers = 3, options.segments = 7;
  run_steps(options, directory_, 5, 8, 37);
  EXPECT_EQ(manifest().number, 8u);
  options.servers = 1;
  run_steps(options, directory_, 8, 10, 0);
  const Rows last = rows_in(directory_, options);
  const Rows expected = reference(options, 10);
  EXPECT_EQ(last.size(), expected.size());
  for (const auto& [key, record] : last) {
    ASSERT_EQ(std::memcmp(record.data(), expected.at(key).data(), 6 * sizeof(float)), 0) << key;
  }
}

TEST_F(Checkpoints, AnIncrementHoldsWhatMovedAndOldFilesGo) {
  const Options options = small(3, 2, table::OptimizerKind::kSgd);
  run_steps(options, directory_, 0, 3, 20);
  const Manifest third = manifest();
  ASSERT_EQ(third.parts.size(), 3u);
  EXPECT_LT(third.parts[1].files[0].rows, third.parts[0].files[0].rows + 100);
  std::set<uint64_t> touched;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    for (const uint64_t key : batch(rank, 2)) touched.insert(key);
  }
  EXPECT_EQ(third.parts[2].files[0].rows + third.parts[2].files[1].rows, touched.size());
  run_steps(options, directory_, 3, 4, 20);  // Step 4 is followed by a full one.
  EXPECT_EQ(names(), (std::set<std::string>{"manifest.json", "000004.server-0.rows",
                                            "000004.server-1.rows", "000004.state"}));
}

TEST_F(Checkpoints, ADirectoryWithACheckpointIsNotWrittenOver) {
  Options options = small(2, 1, table::OptimizerKind::kSgd);
  run_steps(options, directory_, 0, 1, 0);
  options.checkpoint_directory = directory_;
  std::atomic<int> refused{0};
  run_members(options, [&](Seat& seat, uint32_t rank) {
    Context& context = seat.context();
    const Result<void> made = rank < options.workers
                                  ? Worker::create(context, options).map([](auto&&) {})
                                  : Server::create(context, options).map([](auto&&) {});
    ASSERT_FALSE(made.has_value());
    EXPECT_THAT(made.error().what, HasSubstr("holds a checkpoint"));
    ++refused;
  });
  EXPECT_EQ(refused, 3);
  EXPECT_EQ(manifest().number, 1u);
}

TEST_F(Checkpoints, AnotherShapeIsOneClearError) {
  Options options = small(2, 1, table::OptimizerKind::kAdagrad);
  run_steps(options, directory_, 0, 1, 0);
  options.checkpoint_directory = directory_;
  options.restore = manifest();
  EXPECT_TRUE(options.validate());
  const auto problem = [&](auto change) {
    Options other = options;
    change(other);
    const auto fine = other.validate();
    return fine ? std::string() : fine.error().what;
  };
  EXPECT_THAT(problem([](Options& o) { o.shape.width = 7; }),
              HasSubstr("the checkpoint has rows of width 6, this job 7"));
  EXPECT_THAT(problem([](Options& o) { o.shape.optimizer.kind = table::OptimizerKind::kAdam; }),
              HasSubstr("optimizer adagrad, this job adam"));
  EXPECT_THAT(problem([](Options& o) { o.shape.seed = 9; }), HasSubstr("seed 1, this job 9"));
  EXPECT_EQ(problem([](Options& o) { o.shape.optimizer.rate = 9; }), "") << "the next run's own";
}

TEST_F(Checkpoints, WhatIsDamagedOrCutShortIsNotBelieved) {
  const Options options = small(2, 1, table::OptimizerKind::kSgd);
  run_steps(options, directory_, 0, 1, 0);
  const Manifest whole = manifest();
  const SavedFile file = whole.parts[0].files[0];
  const auto take = [](std::span<const uint64_t>, const float*) { return Result<void>(); };
  ASSERT_TRUE(read_rows(directory_, file, options.shape, take));
  const auto change = [&](const std::string& name, int64_t at, char by) {
    std::fstream stream(path(name), std::ios::in | std::ios::out | std::ios::binary);
    stream.seekg(at);
    const auto old = static_cast<char>(stream.get());
    stream.seekp(at);
    stream.put(static_cast<char>(old ^ by));
  };
  change(file.name, 1000, 4);
  EXPECT_THAT(read_rows(directory_, file, options.shape, take).error().what, HasSubstr("damaged"));
  change(file.name, 1000, 4);
  fs::resize_file(path(file.name), file.bytes - 1);
  EXPECT_THAT(read_rows(directory_, file, options.shape, take).error().what,
              HasSubstr("not as long"));
  change(whole.state.name, 0, 1);
  EXPECT_THAT(read_state(directory_, whole).error().what, HasSubstr("not what the manifest says"));
  change("manifest.json", 40, 1);
  ASSERT_FALSE(read_manifest(directory_).has_value());
  std::ofstream(path("manifest.json")) << "{}";
  EXPECT_THAT(read_manifest(directory_).error().what, HasSubstr("manifest.json"));
}

TEST_F(Checkpoints, ADiskThatRefusesLeavesTheLastCheckpointAndTheJob) {
  Options options = small(2, 1, table::OptimizerKind::kSgd);
  options.checkpoint_directory = directory_;
  const auto errors = run_job(options, [&](Worker& worker, uint32_t rank) {
    ASSERT_TRUE(worker.set_hot(hot_keys(10)));
    const std::vector<uint64_t> keys = batch(rank, 1);
    ASSERT_TRUE(worker.pull(keys));
    const std::vector<float> gradients(keys.size() * 6, 1.0f);
    ASSERT_TRUE(worker.push_pull(gradients.data(), keys));
    ASSERT_TRUE(worker.save(true, "first"));
    ASSERT_TRUE(worker.push_pull(gradients.data(), keys));
    // Where the server's next file would be, a directory is in the way.
    if (rank == 0) fs::create_directories(path("000002.server-0.rows/x"));
    const auto refused = worker.save(false, "second");
    ASSERT_FALSE(refused.has_value());
    EXPECT_THAT(refused.error().what, HasSubstr("000002.server-0.rows"));
    ASSERT_TRUE(worker.push_pull(gradients.data(), keys));
    if (rank == 0) {
      EXPECT_EQ(read_state(directory_, manifest()).value(), "first");
    }
    // The next increment has what the one that failed would have had.
    ASSERT_TRUE(worker.save(false, "third"));
    ASSERT_TRUE(worker.set_hot({}));
  });
  EXPECT_EQ(errors[2], "");
  Options reader = options;
  reader.restore = manifest();
  EXPECT_EQ(manifest().number, 3u);
  run_job(reader, [&](Worker& worker, uint32_t rank) {
    const std::vector<uint64_t> keys = batch(rank, 1);
    std::vector<float> rows(keys.size() * 6);
    ASSERT_TRUE(worker.peek(keys, rows.data()));
    std::vector<float> fresh(options.shape.record_lanes());
    for (size_t i = 0; i < keys.size(); ++i) {
      options.shape.make_record(keys[i], fresh.data());
      const bool both = rank == 0 ? std::ranges::count(batch(1, 1), keys[i]) != 0
                                  : std::ranges::count(batch(0, 1), keys[i]) != 0;
      float moved = fresh[0];
      for (int step = 0; step < 3; ++step) {
        moved -= options.shape.optimizer.rate * (both ? 2.0f : 1.0f);
      }
      ASSERT_EQ(rows[i * 6], moved);
    }
  });
}

/// The whole job in a child that is killed while it trains and saves, again and again.
TEST_F(Checkpoints, AJobThatIsKilledAtAnyMomentEndsWithTheSameBits) {
  constexpr uint32_t kSteps = 40;
  const Options options = small(3, 2, table::OptimizerKind::kAdagrad);
  Prng random(7);
  uint32_t done = 0, kills = 0;
  while (done < kSteps) {
    const pid_t child = ::fork();
    if (child == 0) {
      run_steps(options, directory_, done, kSteps, 10 + done);
      ::_exit(testing::Test::HasFailure() ? 1 : 0);
    }
    if (kills < 12) {
      std::this_thread::sleep_for(std::chrono::milliseconds(30 + random.below(200)));
      ::kill(child, SIGKILL);
      ++kills;
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    const auto found = read_manifest(directory_);
    ASSERT_TRUE(found.has_value()) << found.error().what;
    if (*found) done = static_cast<uint32_t>(std::stoul(read_state(directory_, **found).value()));
    std::printf("killed %u times, %u steps\n", kills, done);
  }
  const Rows last = rows_in(directory_, options), expected = reference(options, kSteps);
  ASSERT_EQ(last.size(), expected.size());
  for (const auto& [key, record] : last) {
    ASSERT_EQ(std::memcmp(record.data(), expected.at(key).data(), 6 * sizeof(float)), 0) << key;
  }
}

}  // namespace
}  // namespace sumcast::sparse

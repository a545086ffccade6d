// Rows that are rounded on their way (P26): whoever holds them they read alike, and nothing is
// rounded but what is read.
#include <unistd.h>

#include <filesystem>

#include "sparse/test_daemon.h"

namespace sumcast::sparse {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kSteps = 8;
constexpr WireFormat kRounding[] = {WireFormat::kBF16, WireFormat::kFP16, WireFormat::kInt8};

Options rounded(WireFormat format, table::OptimizerKind kind) {
  Options options = small(3, 2, kind);
  options.row_wire = format;
  return options;
}

/// How a job differs from the plain one.
struct Course {
  std::vector<uint64_t> hot{};
  bool changes_hands = false;  ///< Another hot set every third step.
  JobSetup setup{};
  std::function<void(uint32_t rank, uint32_t step)> on_step{};
};

std::vector<uint64_t> all_keys(const Options& options) {
  std::set<uint64_t> all;
  for (uint32_t rank = 0; rank < options.workers; ++rank) {
    for (uint32_t step = 0; step < kSteps; ++step) {
      for (const uint64_t key : batch(rank, step)) all.insert(key);
    }
  }
  return {all.begin(), all.end()};
}

void begin_batches(Worker& worker, const Options& options, uint32_t rank, uint32_t step) {
  ASSERT_TRUE(good(worker.pull(batch(rank, step))));
  for (uint32_t i = 1; i <= options.staleness; ++i) {
    ASSERT_TRUE(good(worker.announce(batch(rank, step + i))));
  }
}

/// Trains, and returns exact rows as worker 0 peeks at them.
Rows train(const Options& options, const Course& course = {}) {
  Rows final;
  const std::vector<uint64_t> keys = all_keys(options);
  const auto errors = run_job(
      options,
      [&](Worker& worker, uint32_t rank) {
        ASSERT_TRUE(good(worker.set_hot(course.hot)));
        begin_batches(worker, options, rank, 0);
        for (uint32_t step = 0; step < kSteps; ++step) {
          if (course.on_step) course.on_step(rank, step);
          const auto gradients = gradients_of(worker, rank, step, batch(rank, step));
          const uint32_t next = step + 1 + options.staleness;
          ASSERT_TRUE(good(worker.push_pull(gradients.data(), batch(rank, next))));
          if (step % 2 == 1) {
            ASSERT_TRUE(good(worker.flush()));
          }
          if (!course.changes_hands || step % 3 != 2) continue;
          ASSERT_TRUE(good(worker.set_hot(hot_keys(7 * step % 40))));
          begin_batches(worker, options, rank, step + 1);
        }
        std::vector<float> rows(6 * keys.size());
        ASSERT_TRUE(good(worker.peek(keys, rows.data())));
        if (rank != 0) return;
        for (size_t i = 0; i < keys.size(); ++i) {
          final[keys[i]].assign(rows.data() + 6 * i, rows.data() + 6 * i + 6);
        }
      },
      course.setup);
  for (const std::string& error : errors) EXPECT_EQ(error, "");
  return final;
}

class RowWireBits : public ::testing::TestWithParam<table::OptimizerKind> {};

TEST_P(RowWireBits, AllColdMixedAndAllHotGiveTheBitsOfOneMachineThatReadsRoundedRows) {
  for (const WireFormat format : kRounding) {
    const Options options = rounded(format, GetParam());
    const Rows expected = reference(options, kSteps);
    expect_equal_bits(train(options), expected);
    expect_equal_bits(train(options, {.hot = hot_keys(40)}), expected);
    expect_equal_bits(train(options, {.hot = all_keys(options)}), expected);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Optimizers, RowWireBits,
    ::testing::Values(table::OptimizerKind::kSgd, table::OptimizerKind::kMomentum,
                      table::OptimizerKind::kAdagrad, table::OptimizerKind::kRowwiseAdagrad,
                      table::OptimizerKind::kAdam, table::OptimizerKind::kFtrl));

TEST(RowWire, WhatIsReadIsTheRoundedRowAndPeekingSeesTheExactOne) {
  for (const WireFormat format : kRounding) {
    const Options options = rounded(format, table::OptimizerKind::kAdagrad);
    run_job(options, [&](Worker& worker, uint32_t rank) {
      const std::vector<uint64_t> keys = {0, 0x123456789ABCDEFu, 77, 5000, UINT64_MAX};
      ASSERT_TRUE(good(worker.set_hot(hot_keys(2))));
      ASSERT_TRUE(good(worker.pull(keys)));
      const auto gradients = gradients_of(worker, rank, 0, keys);
      ASSERT_TRUE(good(worker.push_pull(gradients.data(), keys)));
      std::vector<float> read(6 * keys.size()), exact(read.size()), expected(read.size());
      for (size_t i = 0; i < keys.size(); ++i) std::copy_n(worker.row(i), 6, &read[6 * i]);
      ASSERT_TRUE(good(worker.peek(keys, exact.data())));
      for (size_t i = 0; i < keys.size(); ++i) read_as(format, &exact[6 * i], &expected[6 * i]);
      EXPECT_EQ(read, expected);
      EXPECT_NE(read, exact);
    });
  }
}

TEST(RowWire, RowsThatChangeHandsAreNotRounded) {
  const Options options = rounded(WireFormat::kInt8, table::OptimizerKind::kAdam);
  const Course course{.hot = hot_keys(20), .changes_hands = true};
  expect_equal_bits(train(options, course), reference(options, kSteps));
}

TEST(RowWire, BothLegsMayBeRounded) {
  Options options = rounded(WireFormat::kInt8, table::OptimizerKind::kMomentum);
  options.wire = WireFormat::kBF16;
  expect_equal_bits(train(options, {.hot = hot_keys(40)}), train(options));
}

TEST(RowWire, LateReadsAreRoundedOnceHotAndCold) {
  for (const uint32_t staleness : {1u, 3u}) {
    Options options = rounded(WireFormat::kInt8, table::OptimizerKind::kAdagrad);
    options.staleness = staleness;
    const Rows cold = train(options);
    expect_equal_bits(train(options, {.hot = hot_keys(40)}), cold);
    expect_equal_bits(train(options, {.hot = all_keys(options)}), cold);
    options.row_wire = WireFormat::kNative;
    EXPECT_NE(train(options), cold) << "rounding shows";
  }
}

TEST(RowWire, RowsThatComeAndGoReadAlikeHotAndCold) {
  Options options = rounded(WireFormat::kInt8, table::OptimizerKind::kFtrl);
  options.shape.life = {.admit_after = 1, .evict_after = 3};
  const Rows cold = train(options);
  expect_equal_bits(train(options, {.hot = hot_keys(25)}), cold);
  expect_equal_bits(train(options, {.hot = hot_keys(25), .changes_hands = true}), cold);
  expect_equal_bits(train(options, {.hot = all_keys(options)}), cold);
}

TEST(RowWire, AnAsynchronousWorkerReadsRoundedRowsToo) {
  Options options = small(1, 2, table::OptimizerKind::kAdagrad);
  options.row_wire = WireFormat::kBF16;
  options.asynchronous = true;
  expect_equal_bits(train(options), reference(options, kSteps));
}

TEST(RowWire, LossDuplicationAndReorderingChangeNoBit) {
  const Options options = rounded(WireFormat::kInt8, table::OptimizerKind::kAdagrad);
  Course course{.hot = hot_keys(40)};
  course.setup.faults.loss = 0.02;
  course.setup.faults.duplicate = course.setup.faults.reorder = 0.02;
  expect_equal_bits(train(options, course), reference(options, kSteps));
}

TEST(RowWire, TheAggregatorsDeathAndReturnChangeNoBit) {
  Road road;
  const Options options = rounded(WireFormat::kInt8, table::OptimizerKind::kMomentum);
  Course course{.hot = hot_keys(35), .setup = road.setup(false)};
  course.on_step = [&](uint32_t rank, uint32_t step) {
    if (rank == 0 && step == 2) road.first->kill();
    if (rank != 0 || step != 5) return;
    EXPECT_EQ(road.seat.load()->failovers(), 1u);
    road.first.emplace(road.first_address);
    road.await_return();
  };
  expect_equal_bits(train(options, course), reference(options, kSteps));
}

TEST(RowWire, CheckpointsHoldExactRowsAndAreTakenUpUnderAnotherFormat) {
  const std::string directory = testing::TempDir() + "row_wire_" + std::to_string(::getpid());
  fs::remove_all(directory);
  fs::create_directories(directory);
  Options options = rounded(WireFormat::kInt8, table::OptimizerKind::kAdagrad);
  options.checkpoint_directory = directory;
  run_job(options, [&](Worker& worker, uint32_t rank) {
    ASSERT_TRUE(good(worker.set_hot(hot_keys(40))));
    ASSERT_TRUE(good(worker.pull(batch(rank, 0))));
    for (uint32_t step = 0; step < kSteps; ++step) {
      const auto gradients = gradients_of(worker, rank, step, batch(rank, step));
      ASSERT_TRUE(good(worker.push_pull(gradients.data(), batch(rank, step + 1))));
    }
    ASSERT_TRUE(good(worker.save(true, "")));
  });
  const Rows expected = reference(options, kSteps);
  options.restore = read_manifest(directory).value();
  options.servers = 3;
  options.row_wire = WireFormat::kBF16;
  run_job(options, [&](Worker& worker, uint32_t) {
    for (const auto& [key, row] : expected) {
      std::vector<float> exact(6), read(6);
      ASSERT_TRUE(good(worker.peek(std::span(&key, 1), exact.data())));
      ASSERT_EQ(exact, row);
      if (key % 7 != 0) continue;
      ASSERT_TRUE(good(worker.pull(std::span(&key, 1))));
      read_as(WireFormat::kBF16, row.data(), read.data());
      ASSERT_TRUE(std::equal(read.begin(), read.end(), worker.row(0)));
    }
  });
  fs::remove_all(directory);
}

template <typename Member>
std::string refusal_of(Context& context, const Options& options) {
  auto member = Member::create(context, options);
  return member ? "" : member.error().what;
}

TEST(RowWire, MembersThatWouldReadDifferentlyDoNotBegin) {
  run_members(small(2, 1, table::OptimizerKind::kSgd), [&](Seat& seat, uint32_t rank) {
    Options options = small(2, 1, table::OptimizerKind::kSgd);
    options.row_wire = rank == 1 ? WireFormat::kBF16 : WireFormat::kInt8;
    EXPECT_THAT(rank < options.workers ? refusal_of<Worker>(seat.context(), options)
                                       : refusal_of<Server>(seat.context(), options),
                testing::HasSubstr("options differ"));
  });
  Options options;
  options.row_wire = WireFormat::kFixed;
  EXPECT_FALSE(options.validate().has_value());
}

}  // namespace
}  // namespace sumcast::sparse

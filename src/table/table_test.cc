#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <unordered_map>

#include "base/prng.h"
#include "table/oldest_first.h"
#include "table/optimizer.h"
#include "table/row_table.h"

namespace sumcast::table {
namespace {

using ::testing::HasSubstr;

TableShape shape_of(OptimizerKind kind, uint32_t width) {
  TableShape shape;
  shape.width = width;
  shape.optimizer.kind = kind;
  shape.optimizer.rate = 0.1f;
  shape.init_scale = 0.05f;
  return shape;
}

TEST(RowTable, EveryKeyHasARowOfItsOwnTheExtremesIncluded) {
  RowTable table(shape_of(OptimizerKind::kAdam, 3));
  Prng random(4);
  std::unordered_map<uint64_t, uint32_t> rows;
  std::vector<uint64_t> keys = {0, 1, UINT64_MAX, UINT64_MAX - 1};
  for (int i = 0; i < 20000; ++i) keys.push_back(random.next_u64());
  for (uint64_t small = 0; small < 5000; ++small) keys.push_back(small);
  for (const uint64_t key : keys) {
    const uint32_t row = table.find_or_make(key);
    ASSERT_NE(row, RowTable::kNone);
    const auto [at, fresh] = rows.emplace(key, row);
    ASSERT_EQ(at->second, row);
    table.record(row)[0] = static_cast<float>(row);
  }
  EXPECT_EQ(table.size(), rows.size());
  for (const auto& [key, row] : rows) {
    ASSERT_EQ(table.find(key), row);
    ASSERT_EQ(table.key(row), key);
    ASSERT_EQ(table.record(row)[0], static_cast<float>(row));
  }
  EXPECT_EQ(table.find(123456789012345), RowTable::kNone);
}

TEST(RowTable, PointersToRowsStayValidWhileTheTableGrows) {
  RowTable table(shape_of(OptimizerKind::kSgd, 2));
  float* const first = table.record(table.find_or_make(42));
  for (uint64_t key = 1000; key < 9000; ++key) (void)table.find_or_make(key);
  EXPECT_EQ(table.record(table.find(42)), first);
}

TEST(RowTable, ANewRowDependsOnSeedAndKeyAlone) {
  const TableShape shape = shape_of(OptimizerKind::kAdagrad, 8);
  RowTable forwards(shape), backwards(shape);
  for (uint64_t key = 0; key < 100; ++key) (void)forwards.find_or_make(key);
  for (uint64_t key = 100; key-- > 0;) (void)backwards.find_or_make(key);
  bool differs = false;
  for (uint64_t key = 0; key < 100; ++key) {
    const float* a = forwards.record(forwards.find(key));
    const float* b = backwards.record(backwards.find(key));
    EXPECT_EQ(std::memcmp(a, b, shape.record_lanes() * sizeof(float)), 0);
    for (uint32_t i = 0; i < 8; ++i) EXPECT_LE(std::fabs(a[i]), 0.05f);
    differs |= key > 0 && std::memcmp(a, forwards.record(0), 32) != 0;
  }
  EXPECT_TRUE(differs);
}

TEST(RowTable, AFullTableRefusesNewKeysAndKeepsTheOld) {
  TableShape shape = shape_of(OptimizerKind::kSgd, 1);
  shape.rows_max = 2;
  RowTable table(shape);
  EXPECT_EQ(table.find_or_make(7), 0u);
  EXPECT_EQ(table.find_or_make(8), 1u);
  EXPECT_EQ(table.find_or_make(9), RowTable::kNone);
  EXPECT_EQ(table.find_or_make(8), 1u);
}

TEST(RowTable, ErasedRowsAreGoneAndAllOthersAreFoundInEveryOrder) {
  RowTable table(shape_of(OptimizerKind::kSgd, 2));
  std::unordered_map<uint64_t, float> expected;
  Prng random(5);
  for (int i = 0; i < 200'000; ++i) {
    const uint64_t key = random.below(3000);  // Long runs in the index.
    if (random.below(2) == 0) {
      table.erase(key);
      expected.erase(key);
      continue;
    }
    const bool is_new = !expected.contains(key);
    const uint32_t row = table.find_or_make(key);
    if (is_new) {
      std::vector<float> fresh(2);
      table.shape().make_record(key, fresh.data());
      ASSERT_EQ(table.record(row)[0], fresh[0]) << "of another key, before";
    }
    table.record(row)[0] = expected[key] = static_cast<float>(i);
  }
  EXPECT_EQ(table.size(), expected.size());
  EXPECT_LE(table.end(), 3000u) << "numbers are used again";
  for (uint64_t key = 0; key < 3000; ++key) {
    const uint32_t row = table.find(key);
    ASSERT_EQ(row != RowTable::kNone, expected.contains(key));
    if (row == RowTable::kNone) continue;
    ASSERT_EQ(table.key(row), key);
    ASSERT_EQ(table.record(row)[0], expected.at(key));
  }
}

TEST(OldestFirst, GivesTheOldestHoweverOftenOthersWereTouched) {
  OldestFirst order;
  std::unordered_map<uint64_t, uint32_t> times;
  Prng random(6);
  const auto time_of = [&](uint64_t key) -> std::optional<uint32_t> {
    const auto found = times.find(key);
    if (found == times.end()) return std::nullopt;
    return found->second;
  };
  for (uint32_t now = 1; now <= 20'000; ++now) {
    const uint64_t key = random.below(300);
    if (!times.contains(key)) order.add(key, now);
    times[key] = now;
    if (random.below(5) == 0) times.erase(random.below(300));  // Gone without a word.
    if (now % 7 != 0) continue;
    const uint32_t limit = now - static_cast<uint32_t>(random.below(400));
    std::optional<uint64_t> expected;
    for (const auto& [one, time] : times) {
      if (time >= limit) continue;
      if (!expected || std::pair(time, one) < std::pair(times.at(*expected), *expected)) {
        expected = one;
      }
    }
    ASSERT_EQ(order.take_before(limit, time_of), expected) << now;
    if (expected) times.erase(*expected);
  }
}

/// Each optimiser against its published rule in double precision.
class Rules : public ::testing::TestWithParam<OptimizerKind> {};

TEST_P(Rules, FollowThePublishedRuleWithinRounding) {
  constexpr size_t kWidth = 5;
  Optimizer o;
  o.kind = GetParam();
  o.rate = 0.05f, o.l1 = 0.02f, o.l2 = 0.1f, o.epsilon = 1e-6f;
  Prng random(9);
  std::vector<float> row(kWidth), state(o.state_lanes(kWidth)), g(kWidth);
  std::vector<double> w(kWidth), a(kWidth, 0), b(kWidth, 0);
  for (size_t i = 0; i < kWidth; ++i) w[i] = row[i] = static_cast<float>(random.unit() - 0.5);
  o.reset(state.data(), kWidth);
  for (int t = 1; t <= 50; ++t) {
    double squares = 0;
    for (size_t i = 0; i < kWidth; ++i) {
      g[i] = static_cast<float>(random.unit() - 0.5);
      squares += double{g[i]} * g[i];
    }
    if (o.kind == OptimizerKind::kRowwiseAdagrad) a[0] += squares / kWidth;
    for (size_t i = 0; i < kWidth; ++i) {
      const double x = g[i];
      switch (o.kind) {
        case OptimizerKind::kSgd:
          w[i] -= o.rate * x;
          break;
        case OptimizerKind::kMomentum:
          a[i] = o.momentum * a[i] + x;
          w[i] -= o.rate * a[i];
          break;
        case OptimizerKind::kAdagrad:
          a[i] += x * x;
          w[i] -= o.rate * x / (std::sqrt(a[i]) + o.epsilon);
          break;
        case OptimizerKind::kRowwiseAdagrad:
          w[i] -= o.rate * x / (std::sqrt(a[0]) + o.epsilon);
          break;
        case OptimizerKind::kAdam:
          a[i] = o.beta1 * a[i] + (1.0 - o.beta1) * x;
          b[i] = o.beta2 * b[i] + (1.0 - o.beta2) * x * x;
          w[i] -= o.rate * (a[i] / (1 - std::pow(double{o.beta1}, t))) /
                  (std::sqrt(b[i] / (1 - std::pow(double{o.beta2}, t))) + o.epsilon);
          break;
        case OptimizerKind::kFtrl: {
          const double sigma = (std::sqrt(b[i] + x * x) - std::sqrt(b[i])) / o.rate;
          a[i] += x - sigma * w[i];
          b[i] += x * x;
          const double over = std::fabs(a[i]) - o.l1;
          w[i] = over <= 0
                     ? 0.0
                     : -std::copysign(over, a[i]) / ((o.beta + std::sqrt(b[i])) / o.rate + o.l2);
          break;
        }
      }
    }
    o.step(row.data(), state.data(), g.data(), kWidth);
    for (size_t i = 0; i < kWidth; ++i) ASSERT_NEAR(row[i], w[i], 2e-4) << "step " << t;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Rules,
                         ::testing::Values(OptimizerKind::kSgd, OptimizerKind::kMomentum,
                                           OptimizerKind::kAdagrad, OptimizerKind::kRowwiseAdagrad,
                                           OptimizerKind::kAdam, OptimizerKind::kFtrl));

TEST(Optimizer, NamesGoBothWaysAndUnknownOnesAreNone) {
  for (const char* name : {"sgd", "momentum", "adagrad", "rowwise-adagrad", "adam", "ftrl"}) {
    const auto kind = optimizer_from_name(name);
    ASSERT_TRUE(kind.has_value()) << name;
    EXPECT_EQ(name_of(*kind), name);
  }
  EXPECT_FALSE(optimizer_from_name("lion").has_value());
}

TEST(Optimizer, ImpossibleSettingsAreNamed) {
  const auto problem = [](auto change) {
    TableShape shape;
    change(shape);
    const auto fine = shape.validate();
    return fine ? std::string() : fine.error().what;
  };
  EXPECT_EQ(problem([](TableShape&) {}), "");
  EXPECT_THAT(problem([](TableShape& s) { s.optimizer.rate = 0; }), HasSubstr("rate is 0"));
  EXPECT_THAT(problem([](TableShape& s) { s.optimizer.rate = NAN; }), HasSubstr("rate is nan"));
  EXPECT_THAT(problem([](TableShape& s) { s.optimizer.beta2 = 1; }), HasSubstr("beta2 is 1"));
  EXPECT_THAT(problem([](TableShape& s) { s.optimizer.epsilon = 0; }), HasSubstr("epsilon is 0"));
  EXPECT_THAT(problem([](TableShape& s) { s.optimizer.l2 = INFINITY; }), HasSubstr("l2 is inf"));
  EXPECT_THAT(problem([](TableShape& s) { s.width = 0; }), HasSubstr("rows of 0 lanes"));
  EXPECT_THAT(problem([](TableShape& s) { s.rows_max = 0; }), HasSubstr("room for 0 rows"));
}

}  // namespace
}  // namespace sumcast::table

// Sums of rows through the public API: ranks are threads with shards of their own, on loopback.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <vector>

#include "api/test_job.h"
#include "base/prng.h"
#include "numeric/codec.h"
#include "numeric/fold.h"
#include "sumcast/sumcast.hpp"

namespace sumcast {
namespace {

using ::testing::HasSubstr;

/// Ranks that send datagrams, though they share a host, and lose some.
template <typename Body>
void with_job(uint32_t world, const Faults& faults, Body body) {
  with_changed_job(
      world,
      [&](Options& options) {
        options.timeout = std::chrono::seconds(30);
        options.one_rank_per_host = true;
        options.faults = faults;
        options.faults.seed += options.rank;
      },
      body);
}

/// What one rank contributes: rows of a table, drawn from its rank and a seed.
struct Contribution {
  std::vector<uint32_t> slots;
  std::vector<float> rows;
};

Contribution draw(uint32_t rank, uint64_t seed, uint32_t slots, uint16_t width, double share) {
  Prng random(seed * 1000 + rank);
  Contribution mine;
  for (uint32_t slot = 0; slot < slots; ++slot) {
    if (!random.chance(share)) continue;
    mine.slots.push_back(slot);
    for (uint16_t i = 0; i < width; ++i) {
      mine.rows.push_back(static_cast<float>((random.unit() - 0.5) * 1e3));
    }
  }
  return mine;
}

/// The canonical sums: each row folded in rank order over those that touched it.
std::map<uint32_t, std::vector<float>> reference(uint32_t world, uint64_t seed, uint32_t slots,
                                                 uint16_t width, double share) {
  std::map<uint32_t, std::vector<const std::byte*>> holders;
  std::vector<Contribution> all;
  for (uint32_t rank = 0; rank < world; ++rank) {
    all.push_back(draw(rank, seed, slots, width, share));
  }
  for (const Contribution& one : all) {
    for (size_t i = 0; i < one.slots.size(); ++i) {
      holders[one.slots[i]].push_back(
          reinterpret_cast<const std::byte*>(one.rows.data() + i * width));
    }
  }
  std::map<uint32_t, std::vector<float>> sums;
  for (const auto& [slot, sources] : holders) {
    std::vector<float> sum(width);
    numeric::fold(ElementType::kF32, Reduction::kSum, sources.data(), sources.size(), width, world,
                  reinterpret_cast<std::byte*>(sum.data()));
    sums[slot] = sum;
  }
  return sums;
}

void expect_sums(const std::map<uint32_t, std::vector<float>>& expected,
                 const std::vector<float>& sums, const std::vector<uint64_t>& present,
                 uint32_t slots, uint16_t width) {
  for (uint32_t slot = 0; slot < slots; ++slot) {
    const auto found = expected.find(slot);
    ASSERT_EQ((present[slot / 64] >> slot % 64 & 1) != 0, found != expected.end()) << slot;
    const std::vector<float> untouched(width, -1.0f);
    const auto& row = found == expected.end() ? untouched : found->second;
    ASSERT_EQ(std::memcmp(row.data(), sums.data() + size_t{slot} * width, 4u * width), 0)
        << "row " << slot;
  }
}

struct Table {
  Table(uint32_t slots, uint16_t width)
      : sums(size_t{slots} * width, -1.0f), present(slots / 64 + 1, 0) {}
  RowSum call(uint32_t slots, uint16_t width, const Contribution& mine) {
    RowSum table;
    table.slots = slots;
    table.width = width;
    table.touched = mine.slots;
    table.rows = mine.rows.data();
    table.sums = sums.data();
    table.present = present.data();
    return table;
  }
  std::vector<float> sums;
  std::vector<uint64_t> present;
};

// P15.
TEST(RowSum, EveryRankGetsTheCanonicalSumOfTheRowsThatAnybodyTouched) {
  struct Case {
    uint32_t slots;
    uint16_t width;
    double share;
  };
  const Case cases[] = {{5000, 16, 0.05}, {777, 1, 0.3}, {100, 64, 1.0},
                        {3, 300, 0.5},    {40, 16, 0.0}, {0, 4, 0.0}};
  with_job(3, {}, [&](Context& context) {
    for (const Case& one : cases) {
      const Contribution mine = draw(context.rank(), 7, one.slots, one.width, one.share);
      Table table(one.slots, one.width);
      auto done = context.world().sum_rows(table.call(one.slots, one.width, mine));
      ASSERT_TRUE(done.has_value()) << done.error().what;
      expect_sums(reference(3, 7, one.slots, one.width, one.share), table.sums, table.present,
                  one.slots, one.width);
    }
  });
}

TEST(RowSum, ARankWithoutRowsTakesPartAllTheSame) {
  with_job(3, {}, [&](Context& context) {
    Contribution mine;
    if (context.rank() == 2) mine = {{4, 90}, {1, 2, 3, 4}};
    Table table(100, 2);
    ASSERT_TRUE(context.world().sum_rows(table.call(100, 2, mine)));
    EXPECT_EQ(table.sums[90 * 2 + 1], 4.0f);
    EXPECT_EQ(table.present[0], uint64_t{1} << 4);
    EXPECT_EQ(table.present[1], uint64_t{1} << (90 - 64));
  });
}

TEST(RowSum, LossDuplicationAndReorderingChangeNoBit) {
  Faults faults;
  faults.loss = 0.02, faults.duplicate = 0.02, faults.reorder = 0.02;
  with_job(3, faults, [&](Context& context) {
    std::vector<Work> works;
    std::vector<Contribution> contributions;
    std::vector<Table> tables;
    contributions.reserve(5), tables.reserve(5);
    for (uint64_t round = 0; round < 5; ++round) {
      contributions.push_back(draw(context.rank(), round, 3000, 8, 0.1));
      tables.emplace_back(3000, 8);
      auto work = context.world().sum_rows_async(tables[round].call(3000, 8, contributions[round]));
      ASSERT_TRUE(work.has_value()) << work.error().what;
      works.push_back(std::move(*work));
      std::vector<float> dense(1000, 1.0f);  // Dense operations of the same group in between.
      ASSERT_TRUE(context.world().all_reduce(std::span(dense)));
      ASSERT_EQ(dense[999], 3.0f);
    }
    for (uint64_t round = 0; round < 5; ++round) {
      auto done = works[round].wait();
      ASSERT_TRUE(done.has_value()) << done.error().what;
      expect_sums(reference(3, round, 3000, 8, 0.1), tables[round].sums, tables[round].present,
                  3000, 8);
    }
  });
}

TEST(RowSum, OnlyTheRootGetsTheSumsIfOneIsNamed) {
  with_job(3, {}, [&](Context& context) {
    const Contribution mine = draw(context.rank(), 3, 500, 4, 0.2);
    Table table(500, 4);
    RowSum call = table.call(500, 4, mine);
    call.root = 1;
    ASSERT_TRUE(context.world().sum_rows(call));
    if (context.rank() == 1) {
      expect_sums(reference(3, 3, 500, 4, 0.2), table.sums, table.present, 500, 4);
    } else {
      expect_sums({}, table.sums, table.present, 500, 4);
    }
  });
}

TEST(RowSum, LossyFormatsRoundOnceOnTheWayInAndOnceOnTheWayOut) {
  with_job(2, {}, [&](Context& context) {
    for (const WireFormat format : {WireFormat::kBF16, WireFormat::kFP16, WireFormat::kInt8}) {
      const Contribution mine = draw(context.rank(), 5, 400, 16, 0.3);
      Table table(400, 16);
      Call call;
      call.wire = format;
      auto done = context.world().sum_rows(table.call(400, 16, mine), call);
      ASSERT_TRUE(done.has_value()) << done.error().what;
      const auto exact = reference(2, 5, 400, 16, 0.3);
      for (const auto& [slot, row] : exact) {
        for (size_t i = 0; i < 16; ++i) {
          EXPECT_NEAR(table.sums[slot * 16 + i], row[i], 16.0f) << name_of(format);
        }
      }
    }
  });
}

TEST(RowSum, AverageDividesByTheSizeOfTheGroup) {
  with_job(2, {}, [&](Context& context) {
    const Contribution mine =
        context.rank() == 0 ? Contribution{{1}, {3.0f}} : Contribution{{1, 2}, {5.0f, 8.0f}};
    Table table(3, 1);
    RowSum call = table.call(3, 1, mine);
    call.reduction = Reduction::kAvg;
    ASSERT_TRUE(context.world().sum_rows(call));
    EXPECT_EQ(table.sums, (std::vector<float>{-1.0f, 4.0f, 4.0f}));
  });
}

TEST(RowSum, WhatCannotBeSummedIsRefusedBeforeAnythingIsSent) {
  with_job(2, {}, [&](Context& context) {
    Table table(100, 2);
    const auto refusal = [&](const RowSum& what, const Call& call = {}) {
      auto done = context.world().sum_rows(what, call);
      return done ? std::string("accepted") : done.error().what;
    };
    const Contribution twice{{4, 4}, {1, 2, 3, 4}}, outside{{100}, {1, 2}}, good{{4}, {1, 2}};
    EXPECT_THAT(refusal(table.call(100, 2, twice)), HasSubstr("4 stands before 4"));
    EXPECT_THAT(refusal(table.call(100, 2, outside)),
                HasSubstr("row 100 is not in a table of 100"));
    EXPECT_THAT(refusal(table.call(100, 0, good)), HasSubstr("cut them into pieces"));
    EXPECT_THAT(refusal(table.call(100, 400, good)), HasSubstr("rows of 400 lanes do not fit"));
    RowSum other = table.call(100, 2, good);
    other.reduction = Reduction::kMax;
    EXPECT_THAT(refusal(other), HasSubstr("rows are combined by sum or avg, not max"));
    other = table.call(100, 2, good);
    other.root = 2;
    EXPECT_THAT(refusal(other), HasSubstr("root 2 is not in a group of 2"));
    Call ring, fixed;
    ring.algorithm = Algorithm::kRing;
    fixed.wire = WireFormat::kFixed;
    EXPECT_THAT(refusal(table.call(100, 2, good), ring), HasSubstr("ring does not sum rows"));
    EXPECT_THAT(refusal(table.call(100, 2, good), fixed), HasSubstr("fixed does not carry rows"));
    EXPECT_EQ(refusal(table.call(100, 2, good)), "accepted") << "the group is as it was";
  });
}

TEST(RowSum, TablesOfDifferentWidthAreAMismatchOnAllRanksAndNothingIsWritten) {
  with_job(2, {}, [&](Context& context) {
    const uint16_t width = context.rank() == 0 ? 2 : 3;
    const Contribution mine{{4}, {1, 2, 3}};
    Table table(100, width);
    auto done = context.world().sum_rows(table.call(100, width, mine));
    ASSERT_FALSE(done.has_value());
    EXPECT_EQ(done.error().code, ErrorCode::kMismatch);
    EXPECT_THAT(done.error().what, HasSubstr("row_sum f32[100][2]"));
    EXPECT_THAT(done.error().what, HasSubstr("row_sum f32[100][3]"));
    expect_sums({}, table.sums, table.present, 100, width);
  });
}

/// Ranks that share memory for everything else (ADR 12).
TEST(RowSum, RanksOfOneHostAreFoldedOneByOne) {
  sumcast::with_job(3, [&](Context& context) {
    for (uint64_t seed = 0; seed < 4; ++seed) {
      const Contribution mine = draw(context.rank(), seed, 2000, 5, 0.3);
      Table table(2000, 5);
      std::vector<float> dense(10'000, static_cast<float>(context.rank() + 1));
      auto beside = context.world().all_reduce_async(dense.data(), dense.data(), dense.size(),
                                                     ElementType::kF32);
      ASSERT_TRUE(beside.has_value()) << beside.error().what;
      auto done = context.world().sum_rows(table.call(2000, 5, mine));
      ASSERT_TRUE(done.has_value()) << done.error().what;
      ASSERT_TRUE(beside->wait().has_value());
      EXPECT_EQ(dense.back(), 6.0f);
      expect_sums(reference(3, seed, 2000, 5, 0.3), table.sums, table.present, 2000, 5);
    }
  });
}

TEST(RowSum, WhatEndsRowsOfRanksThatShareAHostEndsTheGroup) {
  sumcast::with_job(2, [&](Context& context) {
    Group& world = context.world();
    const uint16_t width = context.rank() == 0 ? 2 : 3;
    const Contribution mine{{4}, {1, 2, 3}};
    Table table(100, width);
    auto done = world.sum_rows(table.call(100, width, mine));
    ASSERT_FALSE(done.has_value());
    EXPECT_EQ(done.error().code, ErrorCode::kMismatch);
    EXPECT_TRUE(world.aborted().has_value());
    EXPECT_EQ(world.barrier().error().code, ErrorCode::kMismatch);
    EXPECT_EQ(world.sum_rows(table.call(100, width, mine)).error().code, ErrorCode::kMismatch);
  });
}

TEST(RowSum, AnAbortOfTheGroupEndsRowsThatAreUnderWay) {
  sumcast::with_job(2, [&](Context& context) {
    Group& world = context.world();
    const Contribution mine{{4}, {1, 2}};
    Table table(100, 2);
    ASSERT_TRUE(world.sum_rows(table.call(100, 2, mine)).has_value());
    if (context.rank() == 1) {
      world.abort("enough of it");
      EXPECT_FALSE(world.sum_rows(table.call(100, 2, mine)).has_value());
      return;
    }
    auto done = world.sum_rows(table.call(100, 2, mine));
    ASSERT_FALSE(done.has_value());
    EXPECT_THAT(done.error().what, HasSubstr("enough of it"));
  });
}

}  // namespace
}  // namespace sumcast

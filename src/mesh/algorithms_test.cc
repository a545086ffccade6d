// Every collective against the canonical fold, on values whose sums are exact in any order, so that
// equality is to the bit.
#include "mesh/algorithms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/prng.h"
#include "mesh/steps.h"
#include "mesh/test_world.h"
#include "numeric/element_traits.h"
#include "numeric/fold.h"

namespace sumcast::mesh {
namespace {

using Bytes = std::vector<std::byte>;

/// `value` as an element of `type`.
void write_element(ElementType type, int value, std::byte* at) {
  switch (type) {
    case ElementType::kF16:
      return numeric::store_unaligned(at, numeric::f16_from_f32(static_cast<float>(value)));
    case ElementType::kBF16:
      return numeric::store_unaligned(at, numeric::bf16_from_f32(static_cast<float>(value)));
    case ElementType::kF32:
      return numeric::store_unaligned(at, static_cast<float>(value));
    case ElementType::kF64:
      return numeric::store_unaligned(at, static_cast<double>(value));
    default: {
      const int64_t wide = value;
      std::memcpy(at, &wide, element_bytes(type));  // Little endian: the low bytes come first.
    }
  }
}

/// Small whole numbers: a sum of eight is exact even in bf16. For products, mostly ones, so that
/// eight of them stay exact.
Bytes tensor(ElementType type, Reduction reduction, uint64_t count, uint64_t seed) {
  Bytes bytes(count * element_bytes(type));
  Prng prng(seed);
  for (uint64_t i = 0; i < count; ++i) {
    int value = static_cast<int>(prng.below(16));
    if (reduction == Reduction::kProduct) value = 1 + value / 15;
    if (type == ElementType::kBool) value &= 1;
    write_element(type, value, bytes.data() + i * element_bytes(type));
  }
  return bytes;
}

struct Shape {
  ElementType type = ElementType::kF32;
  Reduction reduction = Reduction::kSum;
  uint64_t count = 0;
};

/// All ranks' inputs and the canonical result.
struct Example {
  std::vector<Bytes> inputs;
  Bytes expected;

  Example(const Shape& shape, uint32_t ranks, uint64_t seed) {
    std::vector<const std::byte*> sources;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      inputs.push_back(tensor(shape.type, shape.reduction, shape.count, seed * 100 + rank));
    }
    for (const Bytes& input : inputs) sources.push_back(input.data());
    expected.resize(inputs[0].size());
    if (shape.reduction == Reduction::kCopy || shape.count == 0) return;
    numeric::fold(shape.type, shape.reduction, sources.data(), ranks, shape.count, ranks,
                  expected.data());
  }
};

class AlgorithmsTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  uint32_t ranks() const { return GetParam(); }

  using AllReduce = decltype(&ring_all_reduce);
  void check_all_reduce(AllReduce all_reduce, const Shape& shape, bool in_place) {
    SCOPED_TRACE(std::string(name_of(shape.reduction)) + " of " + std::to_string(shape.count) +
                 " " + std::string(name_of(shape.type)) + (in_place ? " in place" : ""));
    const Example example(shape, ranks(), ++sequence_);
    std::vector<Bytes> inputs = example.inputs;
    std::vector<Bytes> outputs(ranks(), Bytes(inputs[0].size()));
    expect_success(world_.run([&](uint32_t rank) {
      Bytes& in = inputs[rank];
      return all_reduce(world_.mesh(rank), world_.call(rank, sequence_), in.data(),
                        in_place ? in.data() : outputs[rank].data(), shape.count, shape.type,
                        shape.reduction);
    }));
    for (uint32_t rank = 0; rank < ranks(); ++rank) {
      EXPECT_TRUE((in_place ? inputs : outputs)[rank] == example.expected) << "rank " << rank;
      if (!in_place) {
        EXPECT_TRUE(inputs[rank] == example.inputs[rank]) << "rank " << rank;
      }
    }
  }

  void check_all_shapes(AllReduce all_reduce) {
    for (const uint64_t count : {0, 1, 7, 1000, 100003}) {
      check_all_reduce(all_reduce, {ElementType::kF32, Reduction::kSum, count}, false);
      check_all_reduce(all_reduce, {ElementType::kF32, Reduction::kSum, count}, true);
    }
    for (int t = 0; t < kElementTypes; ++t) {
      for (int r = 0; r < kReductions; ++r) {
        const auto type = static_cast<ElementType>(t);
        const auto reduction = static_cast<Reduction>(r);
        if (!check_reduction(type, reduction)) continue;
        check_all_reduce(all_reduce, {type, reduction, 7}, true);
        check_all_reduce(all_reduce, {type, reduction, 10007}, false);
      }
    }
  }

  TestWorld world_{GetParam()};
  uint32_t sequence_ = 0;
};

TEST_P(AlgorithmsTest, RingAllReduceEqualsTheCanonicalFold) { check_all_shapes(ring_all_reduce); }

TEST_P(AlgorithmsTest, HalvingDoublingAllReduceEqualsTheCanonicalFold) {
  check_all_shapes(halving_doubling_all_reduce);
}

TEST_P(AlgorithmsTest, AllRanksGetTheSameBitsWhereFloatSumsAreInexact) {
  constexpr uint64_t kCount = 30011;
  for (const auto all_reduce : {ring_all_reduce, halving_doubling_all_reduce}) {
    ++sequence_;
    std::vector<std::vector<float>> data(ranks(), std::vector<float>(kCount));
    for (uint32_t rank = 0; rank < ranks(); ++rank) {
      Prng prng(rank);
      for (float& value : data[rank]) value = static_cast<float>(prng.unit() - 0.5);
    }
    expect_success(world_.run([&](uint32_t rank) {
      return all_reduce(world_.mesh(rank), world_.call(rank, sequence_), data[rank].data(),
                        data[rank].data(), kCount, ElementType::kF32, Reduction::kSum);
    }));
    for (uint32_t rank = 1; rank < ranks(); ++rank) EXPECT_TRUE(data[rank] == data[0]);
  }
}

TEST_P(AlgorithmsTest, ReduceScatterGivesEachRankItsPart) {
  for (const uint64_t count : {0, 1, 1000, 100003}) {
    for (const bool in_place : {false, true}) {
      SCOPED_TRACE(count);
      const Shape whole{ElementType::kBF16, Reduction::kAvg, count * ranks()};
      const Example example(whole, ranks(), ++sequence_);
      const size_t bytes = count * 2;
      std::vector<Bytes> inputs = example.inputs;
      std::vector<Bytes> outputs(ranks(), Bytes(bytes));
      expect_success(world_.run([&](uint32_t rank) {
        std::byte* part = inputs[rank].data() + rank * bytes;
        return ring_reduce_scatter(world_.mesh(rank), world_.call(rank, sequence_),
                                   inputs[rank].data(), in_place ? part : outputs[rank].data(),
                                   count, whole.type, whole.reduction);
      }));
      for (uint32_t rank = 0; rank < ranks(); ++rank) {
        const auto begin = static_cast<ptrdiff_t>(rank * bytes);
        const auto end = begin + static_cast<ptrdiff_t>(bytes);
        const Bytes expected(example.expected.begin() + begin, example.expected.begin() + end);
        Bytes touched = example.inputs[rank];
        if (in_place) std::ranges::copy(expected, touched.begin() + begin);
        EXPECT_TRUE(inputs[rank] == touched) << "the rest of rank " << rank << "'s input changed";
        if (!in_place) {
          EXPECT_TRUE(outputs[rank] == expected) << "rank " << rank;
        }
      }
    }
  }
}

TEST_P(AlgorithmsTest, AllGatherCollectsTheRanksInOrder) {
  for (const uint64_t count : {0, 1, 1000, 100003}) {
    for (const bool in_place : {false, true}) {
      SCOPED_TRACE(count);
      const Example example({ElementType::kI32, Reduction::kCopy, count}, ranks(), ++sequence_);
      Bytes expected;
      for (const Bytes& input : example.inputs) {
        expected.insert(expected.end(), input.begin(), input.end());
      }
      std::vector<Bytes> outputs(ranks(), Bytes(expected.size()));
      expect_success(world_.run([&](uint32_t rank) {
        const Bytes& input = example.inputs[rank];
        std::byte* own = outputs[rank].data() + rank * input.size();
        if (in_place) std::ranges::copy(input, own);
        return ring_all_gather(world_.mesh(rank), world_.call(rank, sequence_),
                               in_place ? own : input.data(), outputs[rank].data(), count,
                               ElementType::kI32);
      }));
      for (const Bytes& output : outputs) EXPECT_TRUE(output == expected);
    }
  }
}

TEST_P(AlgorithmsTest, BroadcastCopiesTheRootsTensorFromAnyRoot) {
  for (const uint64_t count : {0, 1, 4000, 100003}) {
    for (uint32_t root = 0; root < ranks(); ++root) {
      const Example example({ElementType::kI32, Reduction::kCopy, count}, ranks(), ++sequence_);
      std::vector<Bytes> data = example.inputs;
      expect_success(world_.run([&](uint32_t rank) {
        return broadcast(world_.mesh(rank), world_.call(rank, sequence_), data[rank].data(), count,
                         ElementType::kI32, root);
      }));
      for (const Bytes& copy : data) EXPECT_TRUE(copy == example.inputs[root]);
    }
  }
}

TEST_P(AlgorithmsTest, ReduceArrivesAtTheRootAndNowhereElse) {
  for (const uint64_t count : {0, 1, 1000, 400003}) {
    for (uint32_t root = 0; root < ranks(); ++root) {
      const Shape shape{ElementType::kF32, Reduction::kAvg, count};
      const Example example(shape, ranks(), ++sequence_);
      std::vector<Bytes> inputs = example.inputs;
      expect_success(world_.run([&](uint32_t rank) {
        std::byte* out = rank == root ? inputs[rank].data() : nullptr;
        return reduce(world_.mesh(rank), world_.call(rank, sequence_), inputs[rank].data(), out,
                      count, shape.type, shape.reduction, root);
      }));
      for (uint32_t rank = 0; rank < ranks(); ++rank) {
        EXPECT_TRUE(inputs[rank] == (rank == root ? example.expected : example.inputs[rank]));
      }
    }
  }
}

TEST_P(AlgorithmsTest, NobodyLeavesABarrierBeforeAllHaveCome) {
  std::atomic<uint32_t> arrived{0};
  for (uint32_t round = 1; round <= 20; ++round) {
    expect_success(world_.run([&](uint32_t rank) {
      ++arrived;
      auto met = barrier(world_.mesh(rank), world_.call(rank, round));
      EXPECT_EQ(arrived.load(), round * ranks());
      return met;
    }));
  }
}

TEST_P(AlgorithmsTest, GroupsAndLanesRunAtTheSameTime) {
  constexpr uint64_t kCount = 50001;
  struct Job {
    GroupId group;
    uint8_t lane;
  };
  const std::vector<Job> jobs{{GroupId(1), 0}, {GroupId(2), 0}, {GroupId(2), 1}};
  expect_success(world_.run([&](uint32_t rank) {
    std::vector<Result<void>> outcomes(jobs.size());
    std::vector<std::vector<float>> data(jobs.size());
    std::vector<std::thread> threads;
    for (size_t j = 0; j < jobs.size(); ++j) {
      data[j].assign(kCount, static_cast<float>(j + 1));
      threads.emplace_back([&, j] {
        for (uint32_t i = 0; i < 5 && outcomes[j]; ++i) {
          MeshCall call = world_.call(rank, i, jobs[j].group);
          call.lane = jobs[j].lane;
          outcomes[j] = ring_all_reduce(world_.mesh(rank), call, data[j].data(), data[j].data(),
                                        kCount, ElementType::kF32, Reduction::kAvg);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (size_t j = 0; j < jobs.size(); ++j) {
      EXPECT_EQ(data[j], std::vector<float>(kCount, static_cast<float>(j + 1)));
      if (!outcomes[j]) return outcomes[j];
    }
    return Result<void>();
  }));
}

INSTANTIATE_TEST_SUITE_P(Worlds, AlgorithmsTest, ::testing::Values(1, 2, 3, 5, 8),
                         [](const auto& suite) { return std::to_string(suite.param) + "Ranks"; });

TEST(PartsTest, CoverTheWholeInOrderAndEndAtLines) {
  for (const size_t bytes : {size_t{0}, size_t{4}, size_t{64}, size_t{1000}, size_t{100003}}) {
    for (const uint64_t parts : {1, 2, 3, 8, 13}) {
      const Extent whole{128, 128 + bytes};
      size_t at = whole.begin;
      for (uint64_t i = 0; i < parts; ++i) {
        const Extent part = part_of(whole, i, parts);
        EXPECT_EQ(part.begin, at);
        EXPECT_GE(part.end, part.begin);
        EXPECT_LE(part.bytes(), bytes / parts + 128);
        if (part.end != whole.end) {
          EXPECT_EQ(part.end % 64, 0);
        }
        at = part.end;
      }
      EXPECT_EQ(at, whole.end);
    }
  }
}

TEST(ReductionsTest, PairsThatDoNotExistAreRefusedAndLeaveTheGroupUsable) {
  TestWorld world(1);
  float value = 1;
  const auto refused = ring_all_reduce(world.mesh(0), world.call(0, 1), &value, &value, 1,
                                       ElementType::kF32, Reduction::kXor);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  const auto rootless = broadcast(world.mesh(0), world.call(0, 1), &value, 1, ElementType::kF32, 1);
  ASSERT_FALSE(rootless);
  EXPECT_EQ(rootless.error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(barrier(world.mesh(0), world.call(0, 2)));
}

}  // namespace
}  // namespace sumcast::mesh

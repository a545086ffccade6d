#include <gtest/gtest.h>

#include "host/test_teams.h"
#include "numeric/codec.h"

namespace sumcast::host {
namespace {

using wire::OperationDescriptor;
using wire::OperationKind;

const std::vector<std::vector<uint32_t>> kLayouts = {
    {0, 0},
    {0, 0, 0},
    {0, 0, 0, 0, 0},  // One host.
    {0, 0, 1, 1},
    {0, 1, 0, 2, 1},
    {0, 0, 0, 1},  // Several, also of unequal size.
    {0, 1, 1, 0, 2, 2}};

OperationDescriptor describe(OperationKind kind, ElementType type, Reduction reduction,
                             uint64_t count, uint16_t root = 0) {
  OperationDescriptor what;
  what.kind = kind;
  what.type = type;
  what.reduction = reduction;
  what.count = count;
  what.root = root;
  return what;
}

/// One, a small piece, several small lines, pieces and a remainder.
std::vector<size_t> counts() { return {0, 1, 37, 5000, 150'001}; }

template <typename Body>
void on_every_layout(Body body) {
  for (const auto& host_of : kLayouts) {
    std::string text;
    for (const uint32_t host : host_of) text += std::to_string(host);
    SCOPED_TRACE("layout " + text);
    TestTeams teams(host_of);
    body(teams, Layout(host_of, 0));
  }
}

std::vector<Bytes> random_inputs(uint32_t size, ElementType type, size_t count) {
  Prng prng(count * 31 + size);
  std::vector<Bytes> inputs;
  for (uint32_t place = 0; place < size; ++place) {
    inputs.push_back(random_bytes(prng, type, count));
  }
  return inputs;
}

TEST(Team, all_reduce_gives_the_bits_of_the_tree_for_every_type_and_reduction) {
  on_every_layout([](TestTeams& teams, const Layout& layout) {
    for (int t = 0; t < kElementTypes; ++t) {
      for (int r = 0; r < kReductions - 1; ++r) {
        const auto type = static_cast<ElementType>(t);
        const auto reduction = static_cast<Reduction>(r);
        if (!reduction_applies(type, reduction)) continue;
        for (const size_t count : {size_t{37}, size_t{9001}}) {
          SCOPED_TRACE(std::string(name_of(type)) + " " + std::string(name_of(reduction)));
          const auto inputs = random_inputs(teams.size(), type, count);
          const Bytes expected = tree_sum(layout, type, reduction, inputs, count);
          std::vector<Bytes> outputs(teams.size(), Bytes(expected.size()));
          expect_success(teams.run_all([&](uint32_t place) {
            return teams.run(place, describe(OperationKind::kAllReduce, type, reduction, count),
                             inputs[place].data(), outputs[place].data());
          }));
          for (const Bytes& output : outputs) ASSERT_TRUE(output == expected);
        }
      }
    }
  });
}

TEST(Team, all_reduce_works_in_place_for_every_count) {
  on_every_layout([](TestTeams& teams, const Layout& layout) {
    for (const size_t count : counts()) {
      auto tensors = random_inputs(teams.size(), ElementType::kF32, count);
      const Bytes expected = tree_sum(layout, ElementType::kF32, Reduction::kAvg, tensors, count);
      expect_success(teams.run_all([&](uint32_t place) {
        return teams.run(
            place, describe(OperationKind::kAllReduce, ElementType::kF32, Reduction::kAvg, count),
            tensors[place].data(), tensors[place].data());
      }));
      for (const Bytes& tensor : tensors) EXPECT_TRUE(tensor == expected) << count;
    }
  });
}

TEST(Team, a_large_tensor_goes_through_few_buffers) {
  on_every_layout([](TestTeams& teams, const Layout& layout) {
    const size_t count = 1'000'003;
    const auto inputs = random_inputs(teams.size(), ElementType::kF32, count);
    const Bytes expected = tree_sum(layout, ElementType::kF32, Reduction::kSum, inputs, count);
    std::vector<Bytes> outputs(teams.size(), Bytes(expected.size()));
    expect_success(teams.run_all([&](uint32_t place) {
      return teams.run(
          place, describe(OperationKind::kAllReduce, ElementType::kF32, Reduction::kSum, count),
          inputs[place].data(), outputs[place].data());
    }));
    for (const Bytes& output : outputs) EXPECT_TRUE(output == expected);
  });
}

TEST(Team, reduce_reaches_the_root_only) {
  on_every_layout([](TestTeams& teams, const Layout& layout) {
    for (uint32_t root = 0; root < teams.size(); ++root) {
      for (const size_t count : counts()) {
        const auto inputs = random_inputs(teams.size(), ElementType::kF64, count);
        const Bytes expected = tree_sum(layout, ElementType::kF64, Reduction::kSum, inputs, count);
        Bytes output(expected.size());
        expect_success(teams.run_all([&](uint32_t place) {
          return teams.run(place,
                           describe(OperationKind::kReduce, ElementType::kF64, Reduction::kSum,
                                    count, static_cast<uint16_t>(root)),
                           inputs[place].data(), place == root ? output.data() : nullptr);
        }));
        EXPECT_TRUE(output == expected) << "root " << root << ", " << count;
      }
    }
  });
}

TEST(Team, broadcast_copies_the_roots_tensor) {
  on_every_layout([](TestTeams& teams, const Layout&) {
    for (uint32_t root = 0; root < teams.size(); ++root) {
      for (const size_t count : counts()) {
        auto tensors = random_inputs(teams.size(), ElementType::kI16, count);
        const Bytes expected = tensors[root];
        expect_success(teams.run_all([&](uint32_t place) {
          return teams.run(place,
                           describe(OperationKind::kBroadcast, ElementType::kI16, Reduction::kCopy,
                                    count, static_cast<uint16_t>(root)),
                           tensors[place].data(), tensors[place].data());
        }));
        for (const Bytes& tensor : tensors) EXPECT_TRUE(tensor == expected) << root;
      }
    }
  });
}

TEST(Team, all_gather_puts_every_rank_in_its_place) {
  on_every_layout([](TestTeams& teams, const Layout&) {
    for (const size_t count : counts()) {
      const auto inputs = random_inputs(teams.size(), ElementType::kF32, count);
      Bytes expected;
      for (const Bytes& input : inputs) expected.insert(expected.end(), input.begin(), input.end());
      std::vector<Bytes> outputs(teams.size(), Bytes(expected.size()));
      expect_success(teams.run_all([&](uint32_t place) {
        Bytes& out = outputs[place];
        std::byte* in = out.data() + place * inputs[place].size();  // In place.
        if (count > 0) std::memcpy(in, inputs[place].data(), inputs[place].size());
        return teams.run(
            place, describe(OperationKind::kAllGather, ElementType::kF32, Reduction::kCopy, count),
            in, out.data());
      }));
      for (const Bytes& output : outputs) EXPECT_TRUE(output == expected) << count;
    }
  });
}

TEST(Team, reduce_scatter_gives_every_rank_its_part) {
  on_every_layout([](TestTeams& teams, const Layout& layout) {
    for (const ElementType type : {ElementType::kF32, ElementType::kBF16}) {
      for (const size_t count : counts()) {
        const auto inputs = random_inputs(teams.size(), type, count * teams.size());
        const Bytes whole = tree_sum(layout, type, Reduction::kAvg, inputs, count * teams.size());
        const size_t bytes = count * element_bytes(type);
        std::vector<Bytes> outputs(teams.size(), Bytes(bytes));
        expect_success(teams.run_all([&](uint32_t place) {
          return teams.run(place,
                           describe(OperationKind::kReduceScatter, type, Reduction::kAvg, count),
                           inputs[place].data(), outputs[place].data());
        }));
        for (uint32_t place = 0; place < teams.size(); ++place) {
          const Bytes part(whole.begin() + static_cast<ptrdiff_t>(place * bytes),
                           whole.begin() + static_cast<ptrdiff_t>((place + 1) * bytes));
          EXPECT_TRUE(outputs[place] == part) << count << " of rank " << place;
        }
      }
    }
  });
}

TEST(Team, nobody_leaves_a_barrier_before_all_have_come) {
  on_every_layout([](TestTeams& teams, const Layout&) {
    for (int round = 0; round < 50; ++round) {
      std::atomic<uint32_t> came{0};
      expect_success(teams.run_all([&](uint32_t place) -> Result<void> {
        ++came;
        auto r = teams.run(place,
                           describe(OperationKind::kBarrier, ElementType::kI8, Reduction::kCopy, 0),
                           nullptr, nullptr);
        EXPECT_EQ(came.load(), teams.size());
        return r;
      }));
    }
  });
}

TEST(Team, different_operations_follow_each_other_without_a_pause) {
  on_every_layout([](TestTeams& teams, const Layout&) {
    expect_success(teams.run_all([&](uint32_t place) -> Result<void> {
      std::vector<int32_t> tensor(70'000);
      for (int32_t round = 0; round < 40; ++round) {
        const size_t count = round % 3 == 0 ? tensor.size() : 10;
        std::fill_n(tensor.begin(), count, round + static_cast<int32_t>(place));
        auto r = teams.run(
            place, describe(OperationKind::kAllReduce, ElementType::kI32, Reduction::kMax, count),
            tensor.data(), tensor.data());
        if (!r) return r;
        for (size_t i = 0; i < count; ++i) {
          if (tensor[i] != round + static_cast<int32_t>(teams.size()) - 1) {
            return fail(ErrorCode::kInternal, "wrong sum");
          }
        }
        r = teams.run(place,
                      describe(OperationKind::kBarrier, ElementType::kI8, Reduction::kCopy, 0),
                      nullptr, nullptr);
        if (!r) return r;
      }
      return {};
    }));
  });
}

TEST(Team, only_one_contribution_per_host_goes_out) {
  const std::vector<uint32_t> host_of = {0, 0, 0, 1, 1, 1};
  TestTeams teams(host_of);
  std::vector<std::vector<float>> tensors(6, std::vector<float>(100'000, 1));
  expect_success(teams.run_all([&](uint32_t place) {
    return teams.run(
        place, describe(OperationKind::kAllReduce, ElementType::kF32, Reduction::kSum, 100'000),
        tensors[place].data(), tensors[place].data());
  }));
  EXPECT_EQ(teams.board.elements(), 200'000u);
}

}  // namespace
}  // namespace sumcast::host

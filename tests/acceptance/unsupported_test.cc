// A4, the other cells: what does not exist is refused at call time, by name, and harms nothing.
#include "acceptance/matrix_world.h"

namespace sumcast::acceptance {
namespace {

using testing::HasSubstr;

class Unsupported : public testing::TestWithParam<Algorithm> {};

TEST_P(Unsupported, PairsAreRefusedWithTheListOfWhatThereIs) {
  with_world(2, GetParam(), [](Context& context) {
    std::vector<double> data(100, 1.0);
    for (int t = 0; t < kElementTypes; ++t) {
      for (int r = 0; r < kReductions - 1; ++r) {
        const auto type = static_cast<ElementType>(t);
        const auto reduction = static_cast<Reduction>(r);
        if (reduction_applies(type, reduction)) continue;
        const auto result =
            context.world().all_reduce(data.data(), data.data(), 10, type, reduction);
        ASSERT_FALSE(result.has_value());
        EXPECT_EQ(result.error().code, ErrorCode::kUnsupported);
        for (const auto part : {name_of(type), name_of(reduction)}) {
          EXPECT_THAT(result.error().what, HasSubstr(std::string(part)));
        }
        EXPECT_THAT(result.error().what, HasSubstr("i8 u8 i16 i32 i64 bool"));
      }
    }
    // Nothing was sent, so the group is whole.
    ASSERT_TRUE(context.world().all_reduce(std::span(data)));
    EXPECT_EQ(data, std::vector<double>(100, 2.0));
  });
}

TEST_P(Unsupported, WireFormatsAreRefusedWhereTheyWouldLoseData) {
  with_world(2, GetParam(), [](Context& context) {
    std::vector<float> data(100, 1.0f);
    const auto attempt = [&](ElementType type, Reduction reduction, WireFormat wire) {
      Call call;
      call.wire = wire;
      const auto result =
          context.world().all_reduce(data.data(), data.data(), 10, type, reduction, call);
      ASSERT_FALSE(result.has_value());
      EXPECT_EQ(result.error().code, ErrorCode::kUnsupported) << result.error().what;
      EXPECT_THAT(result.error().what, HasSubstr(std::string(name_of(wire))));
    };
    for (const WireFormat wire :
         {WireFormat::kBF16, WireFormat::kFP16, WireFormat::kInt8, WireFormat::kFixed}) {
      attempt(ElementType::kI32, Reduction::kSum, wire);
      attempt(ElementType::kF16, Reduction::kSum, wire);
    }
    attempt(ElementType::kF32, Reduction::kMax, WireFormat::kInt8);
    attempt(ElementType::kF32, Reduction::kProduct, WireFormat::kFixed);
    EXPECT_EQ(data, std::vector<float>(100, 1.0f));
    ASSERT_TRUE(context.world().all_reduce(std::span(data)));
  });
}

TEST_P(Unsupported, RootsAndRanksThatDoNotExistAreRefused) {
  with_world(2, GetParam(), [](Context& context) {
    float x = 1;
    const auto result = context.world().broadcast(&x, 1, ElementType::kF32, 2);
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(result.error().what, HasSubstr("root 2"));
    const auto group = context.new_group({0, 7});
    ASSERT_FALSE(group.has_value());
    EXPECT_THAT(group.error().what, HasSubstr("rank 7"));
    const auto twice = context.new_group({0, 1, 0});
    EXPECT_FALSE(twice.has_value());
    ASSERT_TRUE(context.world().barrier());
  });
}

INSTANTIATE_TEST_SUITE_P(Of, Unsupported, testing::ValuesIn(kAlgorithms),
                         [](const auto& one) { return test_name_of(one.param); });

}  // namespace
}  // namespace sumcast::acceptance

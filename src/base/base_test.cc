#include <gtest/gtest.h>

#include "base/element.h"
#include "base/ids.h"
#include "base/prng.h"
#include "base/result.h"
#include "base/time.h"

namespace sumcast {
namespace {

TEST(Ids, CompareOnACircle) {
  EXPECT_TRUE(serial_before(1, 2));
  EXPECT_FALSE(serial_before(2, 2));
  EXPECT_TRUE(serial_before(0xFFFFFFFFu, 0));
  EXPECT_FALSE(serial_before(0, 0xFFFFFFFFu));
}

TEST(Element, NamesGoBothWays) {
  for (int i = 0; i < kElementTypes; ++i) {
    const auto type = static_cast<ElementType>(i);
    EXPECT_EQ(element_type_from_name(name_of(type)), type);
    EXPECT_GT(element_bytes(type), 0u);
  }
  for (int i = 0; i < kReductions; ++i) {
    const auto reduction = static_cast<Reduction>(i);
    EXPECT_EQ(reduction_from_name(name_of(reduction)), reduction);
  }
  EXPECT_EQ(wire_format_from_name("fp32"), WireFormat::kNative);
  EXPECT_FALSE(wire_format_from_name("fp8").has_value());
}

TEST(Element, BitwiseNeedsIntegers) {
  EXPECT_FALSE(reduction_applies(ElementType::kF32, Reduction::kAnd));
  EXPECT_TRUE(reduction_applies(ElementType::kBool, Reduction::kXor));
  EXPECT_TRUE(reduction_applies(ElementType::kBF16, Reduction::kProduct));
}

TEST(Prng, StaysBelowItsBoundAndRepeats) {
  Prng a(7), b(7);
  for (int i = 0; i < 1000; ++i) {
    const uint64_t x = a.below(13);
    EXPECT_LT(x, 13u);
    EXPECT_EQ(x, b.below(13));
  }
}

TEST(Result, KeepsTheChainOfContexts) {
  const Error error = Error{ErrorCode::kTimeout, "rank 3 is missing"}.within("all_reduce #7");
  EXPECT_EQ(error.what, "all_reduce #7: rank 3 is missing");
  EXPECT_EQ(error.code, ErrorCode::kTimeout);
}

TEST(Time, Subtracts) { EXPECT_EQ((Instant{5} + 2ms) - Instant{5}, 2ms); }

}  // namespace
}  // namespace sumcast

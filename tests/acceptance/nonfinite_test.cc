// A5: NaN and infinities never become numbers, whoever holds them, in every wire format.
//
// One tensor tries all assignments of {a number, NaN, +Inf, -Inf} to the three ranks: 64 of them,
// each at one element in every block of 256, so that ordinary elements lie beside all of them.
#include <bit>
#include <cmath>
#include <limits>

#include "acceptance/matrix_world.h"
#include "base/prng.h"

namespace sumcast::acceptance {
namespace {

constexpr uint32_t kWorld = 3;
constexpr size_t kCount = 3 * 256 + 100;
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr uint32_t kNan = 0x7FC00000;

/// Which of the four values rank `rank` holds at `index`; 0 (a number) for three elements of four.
int kind_at(size_t index, uint32_t rank) {
  if (index % 4 != 1) return 0;
  return static_cast<int>(index / 4 % 64 >> (2 * rank)) & 3;
}

float number_at(size_t index, uint32_t rank) {
  Prng prng(index * 7 + rank);
  return static_cast<float>(prng.unit() * 4 - 2);
}

float value_at(size_t index, uint32_t rank) {
  switch (kind_at(index, rank)) {
    case 1:  // A NaN with a payload and a sign: what comes out is the canonical one (N3).
      return std::bit_cast<float>(0xFFA00000u | rank);
    case 2:
      return kInf;
    case 3:
      return -kInf;
    default:
      return number_at(index, rank);
  }
}

/// What the three give; NaN if any is, by the rules of IEEE and N5.
double expected_at(size_t index, Reduction reduction) {
  double sum = value_at(index, 0);
  for (uint32_t rank = 1; rank < kWorld; ++rank) {
    const double next = value_at(index, rank);
    if (std::isnan(sum) || std::isnan(next)) return std::numeric_limits<double>::quiet_NaN();
    if (reduction == Reduction::kMin) {
      sum = std::min(sum, next);
    } else if (reduction == Reduction::kMax) {
      sum = std::max(sum, next);
    } else {
      sum += next;
    }
  }
  return reduction == Reduction::kAvg ? sum / kWorld : sum;
}

/// Generous: an eighth of what all three numbers could be, less for the finer formats.
double tolerance(WireFormat wire) {
  switch (wire) {
    case WireFormat::kNative:
      return 1e-6;
    case WireFormat::kFP16:
      return 6 * 0.002;
    default:
      return 6 * 0.01;
  }
}

class Nonfinite : public testing::TestWithParam<Algorithm> {};

void check(Context& context, Reduction reduction, WireFormat wire) {
  std::vector<float> data(kCount);
  for (size_t i = 0; i < kCount; ++i) data[i] = value_at(i, context.rank());
  Call call;
  call.wire = wire;
  const auto result = context.world().all_reduce(std::span(data), reduction, call);
  ASSERT_TRUE(result.has_value()) << result.error().what;
  for (size_t i = 0; i < kCount; ++i) {
    const double expected = expected_at(i, reduction);
    const std::string where = std::string(name_of(reduction)) + ", " + std::string(name_of(wire)) +
                              ", element " + std::to_string(i);
    if (std::isnan(expected)) {
      ASSERT_EQ(std::bit_cast<uint32_t>(data[i]), kNan) << where;
    } else if (std::isinf(expected)) {
      ASSERT_EQ(data[i], expected) << where;
    } else {
      ASSERT_NEAR(data[i], expected, tolerance(wire)) << where;
    }
  }
}

TEST_P(Nonfinite, ValuesStayWhatTheyAreInEveryFormat) {
  const bool has_formats = is_canonical(GetParam());
  with_world(kWorld, GetParam(), [has_formats](Context& context) {
    for (int w = 0; w < (has_formats ? kWireFormats : 1); ++w) {
      const auto wire = static_cast<WireFormat>(w);
      check(context, Reduction::kSum, wire);
      check(context, Reduction::kAvg, wire);
      if (wire == WireFormat::kInt8 || wire == WireFormat::kFixed) continue;
      check(context, Reduction::kMin, wire);
      check(context, Reduction::kMax, wire);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Of, Nonfinite, testing::ValuesIn(kAlgorithms),
                         [](const auto& one) { return test_name_of(one.param); });

}  // namespace
}  // namespace sumcast::acceptance

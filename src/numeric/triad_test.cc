#include "numeric/triad.h"

#include "numeric/test_support.h"

namespace sumcast::numeric {
namespace {

TEST(Triad, AddsAScaledArrayToAnother) {
  for (size_t lanes : {0, 1, 63, 64, 65, 1000}) {
    std::vector<float> a(lanes), b(lanes);
    for (size_t i = 0; i < lanes; ++i) {
      a[i] = static_cast<float>(i);
      b[i] = static_cast<float>(2 * i);
    }
    on_every_target([&] {
      std::vector<float> out(lanes + 1, -1.0f);
      triad(a.data(), b.data(), 3.0f, out.data(), lanes);
      for (size_t i = 0; i < lanes; ++i) ASSERT_EQ(out[i], static_cast<float>(7 * i));
      EXPECT_EQ(out[lanes], -1.0f);
    });
  }
}

}  // namespace
}  // namespace sumcast::numeric

// The law that the `ctr` generator draws ranks from.
//
// Measured click data (4,000 rows of Criteo, V = 22,346) give the top 0.1 / 1 / 10 % of the keys
// .31 / .55 / .73 of the updates. No pure Zipf law does: its head would be too heavy or its tail
// too thin. What fits all three is a Zipf-Mandelbrot law of the *relative* rank x = rank / V, mixed
// with a share w that falls on all keys alike:
//
//   S(x) = (1 - w) (q^(1-a) - (x + q)^(1-a)) / (q^(1-a) - (1 + q)^(1-a)) + w x     share of the top
//   x
//
// with three constants that solve S(.001) = .31, S(.01) = .55, S(.1) = .73 (by Newton's method). As
// it is a law of x, the shares hold at any V; half of the updates go to x = .0059 of the keys
// (criteo: .0056).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/prng.h"

namespace sumcast::dataset {

class SkewLaw {
 public:
  /// The click-log law.
  static SkewLaw clicks() {
    return SkewLaw(0.18357558535254054, 1.1966793590275056, 1.7870851394366987e-4);
  }
  /// Every rank alike.
  static SkewLaw flat() { return SkewLaw(1.0, 2.0, 1.0); }

  /// w in [0, 1], a > 1, q > 0.
  SkewLaw(double uniform_share, double exponent, double offset)
      : uniform_share_(uniform_share),
        power_(1.0 - exponent),
        offset_(offset),
        head_(std::pow(offset, power_)),
        all_(head_ - std::pow(1.0 + offset, power_)) {}

  /// Share of the updates that the first `x` of all keys take, x in [0, 1].
  double share_of_top(double x) const {
    return (1.0 - uniform_share_) * (head_ - std::pow(x + offset_, power_)) / all_ +
           uniform_share_ * x;
  }

  /// A relative rank in [0, 1), drawn from the law; rounding may return 1.
  double draw(Prng& prng) const {
    const double level = prng.unit();
    if (level < uniform_share_) return level / uniform_share_;
    // The inverse of the Zipf-Mandelbrot part at what is left of the same number.
    const double depth = (level - uniform_share_) / (1.0 - uniform_share_);
    return std::max(0.0, std::pow(head_ - depth * all_, 1.0 / power_) - offset_);
  }
  /// A rank among `size` (>= 1) keys.
  uint64_t draw_rank(Prng& prng, uint64_t size) const {
    const auto rank = static_cast<uint64_t>(draw(prng) * static_cast<double>(size));
    return std::min(rank, size - 1);  // Rounding in the inverse may reach 1.0 itself.
  }

 private:
  double uniform_share_;
  double power_;  // 1 - a
  double offset_;
  double head_;
  double all_;
};

}  // namespace sumcast::dataset

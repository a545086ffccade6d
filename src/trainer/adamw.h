// AdamW (Loshchilov and Hutter 2019): Adam's step, and weight decay beside it.
//
//   m = b1 m + (1 - b1) g        v = b2 v + (1 - b2) g^2
//   w = w - rate * (m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps) + decay * w)
#pragma once

#include "pipeline/update_rule.h"

namespace sumcast::trainer {

/// Two planes: m and v. One order of single operations, so that all ranks compute the same bits.
class AdamW final : public pipeline::UpdateRule {
 public:
  struct Options {
    float beta1 = 0.9f;    ///< [0, 1).
    float beta2 = 0.999f;  ///< [0, 1).
    float epsilon = 1e-8f;
    float decay = 0.01f;  ///< Of weights, per unit of rate.
  };
  explicit AdamW(const Options& options) : options_(options) {}

  size_t planes() const override { return 2; }
  bool accumulates() const override { return true; }
  void update(pipeline::ConstParameters in, std::span<const float> gradient,
              pipeline::UpdateTime at, pipeline::Parameters out) const override;

 private:
  Options options_;
};

}  // namespace sumcast::trainer

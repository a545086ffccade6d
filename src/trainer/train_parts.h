// What a training is made of, whoever sums its gradients.
#pragma once

#include <cstddef>
#include <memory>

#include "base/result.h"
#include "pipeline/update_rule.h"
#include "trainer/idx.h"
#include "trainer/mlp.h"
#include "trainer/train.h"

namespace sumcast::trainer {

Mlp make_model(const FashionMnist& data, const TrainOptions& options);
std::unique_ptr<pipeline::UpdateRule> make_rule(const TrainOptions& options);

/// Of the training images, how many are trained on.
size_t images_used(const FashionMnist& data, const TrainOptions& options);

/// kInvalidArgument, one line, if `workers` cannot train with these options on these data.
Result<void> check_training(const FashionMnist& data, uint32_t workers,
                            const TrainOptions& options);

}  // namespace sumcast::trainer

// Training over an asynchronous server, as learning sees it: nobody waits for another worker, so
// every gradient is applied to weights that the others have moved since it was computed.
//
// Workers of equal speed take turns at a server. On that schedule, which this plays through in one
// thread, a worker's gradient is of the weights that it fetched after its own last turn, `workers`
// - 1 updates ago, and is applied at once. As many images as the others, in `workers` times as many
// updates at 1 / `workers` of the rate. Equal options give equal bits.
#pragma once

#include "trainer/train.h"

namespace sumcast::trainer {

/// Trains from scratch; `options.pipeline`, `encoder` and `accumulate` do not apply, `rate` is that
/// of synchronous training. losses: means over workers, one per turn of all; times are not taken.
/// Errors: kInvalidArgument for options that do not fit the data.
Result<TrainOutcome> train_by_turns(const FashionMnist& data, uint16_t workers,
                                    const TrainOptions& options);

}  // namespace sumcast::trainer

// Which images a worker sees in which step.
//
// Each epoch has one random order, drawn from seed and epoch, hence the same on all ranks. Step s
// uses the next world * batch images of it, of which rank r takes the r-th batch. So the union of
// all ranks' images depends on world * batch alone, and two workers with batches of 64 train on
// what one worker with 128 would. What is left over at the end of the order is dropped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"

namespace sumcast::trainer {

/// A worker's place among the workers that train together.
struct Place {
  Rank rank;
  uint16_t world = 1;  ///< Number of ranks; `rank` is below it.
};

class BatchSampler {
 public:
  /// `images`: how many there are. `batch`: images per worker and step, at least 1.
  BatchSampler(Place place, size_t images, size_t batch, uint64_t seed);

  /// Zero if there are fewer images than one step of all workers needs.
  size_t steps_per_epoch() const { return order_.size() / per_step_; }

  /// Draws the order of `epoch`. Must come before the first indices().
  void start_epoch(uint64_t epoch);

  /// The images of this rank in `step` of the epoch, below steps_per_epoch(). Valid until the next
  /// start_epoch.
  std::span<const uint32_t> indices(size_t step) const;

 private:
  Place place_;
  size_t batch_;
  size_t per_step_;
  uint64_t seed_;
  std::vector<uint32_t> order_;
};

}  // namespace sumcast::trainer

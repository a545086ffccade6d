// A click log that nobody recorded: samples like Criteo's, with a signal that can be learned.
//
// 13 counts and 26 categories whose frequencies follow click data (skew_law.h). Whether a sample is
// a click is drawn from a model that readers of the samples do not know:
//
//   z = -1.6 + sum over categories of w(key)              what lr can learn
//            + sum over 13 pairs of fields of s(key) s(key')   what fm can learn
//            + a bump of one count: clicks come in its middle       what takes layers
//   click with chance 1 / (1 + exp(-z))
//
// w in [-.5, .5] and s in [-.9, .9] are hashes of the keys. With `drift` the keys age: a rank's
// key is replaced by a new one `drift` times in the log, each rank at its own times, as articles
// and campaigns come and go.
#pragma once

#include <memory>

#include "base/prng.h"
#include "dataset/sample.h"
#include "dataset/skew_law.h"

namespace sumcast::dataset {

struct ClickLogOptions {
  uint64_t rows = 100'000;       ///< >= 1.
  uint64_t vocabulary = 26'000;  ///< Keys of all categories at one time, >= 100 a category.
  uint32_t drift = 0;            ///< Lives of each rank's key after the first.
  uint64_t seed = 1;
};

class ClickLog final : public SampleReader {
 public:
  static constexpr uint32_t kCounts = 13;
  static constexpr uint32_t kCategories = 26;

  /// kInvalidArgument: options out of range.
  static Result<std::unique_ptr<ClickLog>> create(const ClickLogOptions& options);

  Result<bool> next(Sample& sample) override;

 private:
  explicit ClickLog(const ClickLogOptions& options)
      : options_(options), prng_(options.seed * 0xC11C + 1), law_(SkewLaw::clicks()) {}

  ClickLogOptions options_;
  Prng prng_;
  SkewLaw law_;
  uint64_t row_ = 0;
};

}  // namespace sumcast::dataset

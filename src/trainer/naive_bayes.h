// Multinomial naive Bayes over sparse counts: what a trained classifier of text must beat.
//
// P(class | words) is proportional to P(class) times, for each word, ((count of the word in the
// class) + a) / ((words of the class) + a V) to the power of how often it occurs. The smoothing `a`
// is chosen on a part of the training data (McCallum, Nigam 1998, for the model).
#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "dataset/sample.h"

namespace sumcast::trainer {

class NaiveBayes {
 public:
  /// @param classes  labels are 0 .. classes - 1.
  explicit NaiveBayes(uint32_t classes) : class_samples_(classes), class_words_(classes) {}

  void add(const dataset::Sample& sample);
  /// The most probable class.
  uint32_t classify(const dataset::Sample& sample, double smoothing) const;

 private:
  double samples_ = 0;
  std::vector<double> class_samples_, class_words_;
  std::unordered_map<uint64_t, std::vector<std::pair<uint32_t, float>>> words_;  // class, count
};

struct NaiveBayesResult {
  double smoothing = 0;
  double top_1 = 0;
};
/// Trains on `train`, with the smoothing that did best on a tenth of its groups, tests on `test`.
NaiveBayesResult measure_naive_bayes(std::span<const dataset::Sample> train,
                                     std::span<const dataset::Sample> test, uint32_t classes);

}  // namespace sumcast::trainer

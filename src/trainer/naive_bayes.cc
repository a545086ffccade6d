#include "trainer/naive_bayes.h"

#include <algorithm>
#include <cmath>

#include "base/prng.h"

namespace sumcast::trainer {
namespace {

constexpr double kSmoothings[] = {0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0};

double share_right(const NaiveBayes& model, std::span<const dataset::Sample> samples,
                   double smoothing) {
  size_t right = 0;
  for (const dataset::Sample& sample : samples) {
    right += model.classify(sample, smoothing) == static_cast<uint32_t>(sample.label);
  }
  return samples.empty() ? 0 : static_cast<double>(right) / static_cast<double>(samples.size());
}

}  // namespace

void NaiveBayes::add(const dataset::Sample& sample) {
  const auto label = static_cast<uint32_t>(sample.label);
  samples_ += 1;
  class_samples_[label] += 1;
  for (const dataset::Feature& feature : sample.features) {
    class_words_[label] += feature.value;
    auto& counts = words_[feature.key];
    const auto found = std::ranges::find(counts, label, &std::pair<uint32_t, float>::first);
    if (found == counts.end()) {
      counts.emplace_back(label, feature.value);
    } else {
      found->second += feature.value;
    }
  }
}

uint32_t NaiveBayes::classify(const dataset::Sample& sample, double smoothing) const {
  const size_t classes = class_samples_.size();
  const double vocabulary = static_cast<double>(words_.size());
  std::vector<double> score(classes);
  double weight = 0;  // Of words known: each class pays for all of them, then counts come back.
  for (const dataset::Feature& feature : sample.features) {
    const auto word = words_.find(feature.key);
    if (word == words_.end()) continue;
    weight += feature.value;
    for (const auto& [label, count] : word->second) {
      score[label] += feature.value * (std::log(count + smoothing) - std::log(smoothing));
    }
  }
  for (size_t label = 0; label < classes; ++label) {
    score[label] +=
        std::log((class_samples_[label] + 1e-9) / samples_) +
        weight * (std::log(smoothing) - std::log(class_words_[label] + smoothing * vocabulary));
  }
  return static_cast<uint32_t>(std::ranges::max_element(score) - score.begin());
}

NaiveBayesResult measure_naive_bayes(std::span<const dataset::Sample> train,
                                     std::span<const dataset::Sample> test, uint32_t classes) {
  NaiveBayes most(classes), all(classes);
  std::vector<dataset::Sample> held;
  for (const dataset::Sample& sample : train) {
    all.add(sample);
    if (Prng(sample.group ^ 0x7E57u).below(10) == 0) {
      held.push_back(sample);
    } else {
      most.add(sample);
    }
  }
  NaiveBayesResult best;
  double best_held = -1;
  for (const double smoothing : kSmoothings) {
    const double right = share_right(most, held, smoothing);
    if (right > best_held) best_held = right, best.smoothing = smoothing;
  }
  best.top_1 = share_right(all, test, best.smoothing);
  return best;
}

}  // namespace sumcast::trainer

#include "trainer/sparse_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace sumcast::trainer {
namespace {

constexpr double kProbabilityMin = 1e-7;

double clamped_log(double probability) {
  return std::log(std::clamp(probability, kProbabilityMin, 1.0 - kProbabilityMin));
}

float sigmoid(float z) { return 1.0f / (1.0f + std::exp(-z)); }
bool is_positive(float label) { return label > 0.5f; }

/// Linear part of lr and fm: lane 0 of every row.
float linear(std::span<const SparseEntry> sample, std::span<const float* const> rows) {
  float z = 0;
  for (const SparseEntry& entry : sample) z += rows[entry.key][0] * entry.value;
  return z;
}

class Binary : public SparseModel {
 public:
  uint32_t scores() const override { return 1; }

  double learn(const SparseBatch& batch, std::span<const float* const> rows, float share,
               float* gradients) const override {
    std::fill_n(gradients, batch.keys.size() * width(), 0.0f);
    double loss = 0;
    for (size_t i = 0; i < batch.size(); ++i) {
      const float p = sigmoid(score(batch.sample(i), rows));
      const bool positive = is_positive(batch.labels[i]);
      loss -= clamped_log(positive ? p : 1.0 - p);
      add_gradient(batch.sample(i), rows, (p - (positive ? 1.0f : 0.0f)) * share, gradients);
    }
    return loss;
  }

  void predict(const SparseBatch& batch, std::span<const float* const> rows,
               float* out) const override {
    for (size_t i = 0; i < batch.size(); ++i) out[i] = sigmoid(score(batch.sample(i), rows));
  }

 protected:
  virtual float score(std::span<const SparseEntry> sample,
                      std::span<const float* const> rows) const = 0;
  /// Adds `slope` times what the score's derivative by each row is.
  virtual void add_gradient(std::span<const SparseEntry> sample, std::span<const float* const> rows,
                            float slope, float* gradients) const = 0;
};

class LogisticRegression final : public Binary {
 public:
  uint32_t width() const override { return 1; }
  float init_scale() const override { return 0; }

 private:
  float score(std::span<const SparseEntry> sample,
              std::span<const float* const> rows) const override {
    return linear(sample, rows);
  }
  void add_gradient(std::span<const SparseEntry> sample, std::span<const float* const>, float slope,
                    float* gradients) const override {
    for (const SparseEntry& entry : sample) gradients[entry.key] += slope * entry.value;
  }
};

class FactorizationMachine final : public Binary {
 public:
  explicit FactorizationMachine(uint32_t factors) : factors_(factors) {}
  uint32_t width() const override { return 1 + factors_; }
  float init_scale() const override { return 0.05f; }

 private:
  float score(std::span<const SparseEntry> sample,
              std::span<const float* const> rows) const override {
    float z = linear(sample, rows);
    for (uint32_t f = 1; f <= factors_; ++f) {
      float sum = 0, squares = 0;
      for (const SparseEntry& entry : sample) {
        const float part = rows[entry.key][f] * entry.value;
        sum += part;
        squares += part * part;
      }
      z += 0.5f * (sum * sum - squares);
    }
    return z;
  }
  void add_gradient(std::span<const SparseEntry> sample, std::span<const float* const> rows,
                    float slope, float* gradients) const override {
    const size_t lanes = width();
    for (const SparseEntry& entry : sample) gradients[entry.key * lanes] += slope * entry.value;
    for (uint32_t f = 1; f <= factors_; ++f) {
      float sum = 0;
      for (const SparseEntry& entry : sample) sum += rows[entry.key][f] * entry.value;
      for (const SparseEntry& entry : sample) {
        gradients[entry.key * lanes + f] +=
            slope * entry.value * (sum - rows[entry.key][f] * entry.value);
      }
    }
  }

  uint32_t factors_;
};

class Softmax final : public SparseModel {
 public:
  explicit Softmax(uint32_t classes) : classes_(classes) {}
  uint32_t width() const override { return classes_; }
  uint32_t scores() const override { return classes_; }
  float init_scale() const override { return 0; }

  double learn(const SparseBatch& batch, std::span<const float* const> rows, float share,
               float* gradients) const override {
    std::fill_n(gradients, batch.keys.size() * classes_, 0.0f);
    std::vector<float> p(classes_);
    double loss = 0;
    for (size_t i = 0; i < batch.size(); ++i) {
      probabilities(batch.sample(i), rows, p.data());
      const auto label = static_cast<size_t>(batch.labels[i]);
      loss -= clamped_log(p[label]);
      p[label] -= 1.0f;
      for (const SparseEntry& entry : batch.sample(i)) {
        float* const gradient = gradients + size_t{entry.key} * classes_;
        const float slope = share * entry.value;
        for (uint32_t c = 0; c < classes_; ++c) gradient[c] += slope * p[c];
      }
    }
    return loss;
  }

  void predict(const SparseBatch& batch, std::span<const float* const> rows,
               float* out) const override {
    for (size_t i = 0; i < batch.size(); ++i) {
      probabilities(batch.sample(i), rows, out + i * classes_);
    }
  }

 private:
  void probabilities(std::span<const SparseEntry> sample, std::span<const float* const> rows,
                     float* p) const {
    std::fill_n(p, classes_, 0.0f);
    for (const SparseEntry& entry : sample) {
      const float* const row = rows[entry.key];
      for (uint32_t c = 0; c < classes_; ++c) p[c] += row[c] * entry.value;
    }
    const float most = *std::max_element(p, p + classes_);
    float total = 0;
    for (uint32_t c = 0; c < classes_; ++c) total += p[c] = std::exp(p[c] - most);
    for (uint32_t c = 0; c < classes_; ++c) p[c] /= total;
  }

  uint32_t classes_;
};

}  // namespace

Result<std::unique_ptr<SparseModel>> make_sparse_model(std::string_view name, uint32_t classes,
                                                       uint32_t factors) {
  if (name == "lr") return std::make_unique<LogisticRegression>();
  if (name == "fm" && factors > 0) return std::make_unique<FactorizationMachine>(factors);
  if (name == "softmax" && classes >= 2) return std::make_unique<Softmax>(classes);
  if (name == "fm") return fail(ErrorCode::kInvalidArgument, "fm: at least one factor is needed");
  if (name == "softmax") {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("softmax: the data has {} label(s); two are needed", classes));
  }
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("no such model: \"{}\"; there are lr, fm, softmax", name));
}

double log_loss(std::span<const float> labels, std::span<const float> probabilities,
                uint32_t scores) {
  double loss = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    if (scores == 1) {
      const double p = probabilities[i];
      loss -= clamped_log(is_positive(labels[i]) ? p : 1.0 - p);
    } else {
      loss -= clamped_log(probabilities[i * scores + static_cast<size_t>(labels[i])]);
    }
  }
  return labels.empty() ? 0 : loss / static_cast<double>(labels.size());
}

double top_1(std::span<const float> labels, std::span<const float> probabilities, uint32_t scores) {
  size_t right = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    if (scores == 1) {
      right += (probabilities[i] > 0.5f) == is_positive(labels[i]);
      continue;
    }
    const auto p = probabilities.subspan(i * scores, scores);
    right += static_cast<size_t>(std::ranges::max_element(p) - p.begin()) ==
             static_cast<size_t>(labels[i]);
  }
  return labels.empty() ? 0 : static_cast<double>(right) / static_cast<double>(labels.size());
}

double area_under_curve(std::span<const float> labels, std::span<const float> probabilities) {
  std::vector<size_t> order(labels.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return probabilities[i]; });
  double positives = 0, pairs = 0, negatives_below = 0;
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    double here_positive = 0, here_negative = 0;
    while (end < order.size() && probabilities[order[end]] == probabilities[order[begin]]) {
      (is_positive(labels[order[end++]]) ? here_positive : here_negative) += 1;
    }
    pairs += here_positive * (negatives_below + 0.5 * here_negative);
    positives += here_positive;
    negatives_below += here_negative;
    begin = end;
  }
  return positives == 0 || negatives_below == 0 ? 0.5 : pairs / (positives * negatives_below);
}

}  // namespace sumcast::trainer

#include "trainer/sparse_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "trainer/deep_fm.h"
#include "trainer/factors.h"

namespace sumcast::trainer {
namespace {

constexpr double kProbabilityMin = 1e-7;

double clamped_log(double probability) {
  return std::log(std::clamp(probability, kProbabilityMin, 1.0 - kProbabilityMin));
}

bool is_positive(float label) { return label > 0.5f; }

class Binary : public SparseModel {
 public:
  uint32_t scores() const override { return 1; }

  double learn(const SparseBatch& batch, const ModelView& model, float share,
               const GradientView& gradients) const override {
    std::fill_n(gradients.rows, batch.keys.size() * width(), 0.0f);
    double loss = 0;
    for (size_t i = 0; i < batch.size(); ++i) {
      const Guess guess = judge(score(batch.sample(i), model.rows), batch.labels[i]);
      loss += guess.loss;
      add_gradient(batch.sample(i), model.rows, guess.slope * share, gradients.rows);
    }
    return loss;
  }

  void predict(const SparseBatch& batch, const ModelView& model, float* out) const override {
    for (size_t i = 0; i < batch.size(); ++i) out[i] = sigmoid(score(batch.sample(i), model.rows));
  }

 protected:
  virtual float score(std::span<const SparseEntry> sample, Rows rows) const = 0;
  /// Adds `slope` times what the score's derivative by each row is.
  virtual void add_gradient(std::span<const SparseEntry> sample, Rows rows, float slope,
                            float* gradients) const = 0;
};

class LogisticRegression final : public Binary {
 public:
  uint32_t width() const override { return 1; }
  float init_scale() const override { return 0; }

 private:
  float score(std::span<const SparseEntry> sample, Rows rows) const override {
    return factor_score(sample, rows, 0);
  }
  void add_gradient(std::span<const SparseEntry> sample, Rows rows, float slope,
                    float* gradients) const override {
    add_factor_gradient(sample, rows, 0, slope, gradients);
  }
};

class FactorizationMachine final : public Binary {
 public:
  explicit FactorizationMachine(uint32_t factors) : factors_(factors) {}
  uint32_t width() const override { return 1 + factors_; }
  float init_scale() const override { return kFactorScale; }

 private:
  float score(std::span<const SparseEntry> sample, Rows rows) const override {
    return factor_score(sample, rows, factors_);
  }
  void add_gradient(std::span<const SparseEntry> sample, Rows rows, float slope,
                    float* gradients) const override {
    add_factor_gradient(sample, rows, factors_, slope, gradients);
  }

  uint32_t factors_;
};

class Softmax final : public SparseModel {
 public:
  explicit Softmax(uint32_t classes) : classes_(classes) {}
  uint32_t width() const override { return classes_; }
  uint32_t scores() const override { return classes_; }
  float init_scale() const override { return 0; }

  double learn(const SparseBatch& batch, const ModelView& model, float share,
               const GradientView& gradients) const override {
    std::fill_n(gradients.rows, batch.keys.size() * classes_, 0.0f);
    std::vector<float> p(classes_);
    double loss = 0;
    for (size_t i = 0; i < batch.size(); ++i) {
      probabilities(batch.sample(i), model.rows, p.data());
      const auto label = static_cast<size_t>(batch.labels[i]);
      loss -= clamped_log(p[label]);
      p[label] -= 1.0f;
      for (const SparseEntry& entry : batch.sample(i)) {
        float* const gradient = gradients.rows + size_t{entry.key} * classes_;
        const float slope = share * entry.value;
        for (uint32_t c = 0; c < classes_; ++c) gradient[c] += slope * p[c];
      }
    }
    return loss;
  }

  void predict(const SparseBatch& batch, const ModelView& model, float* out) const override {
    for (size_t i = 0; i < batch.size(); ++i) {
      probabilities(batch.sample(i), model.rows, out + i * classes_);
    }
  }

 private:
  void probabilities(std::span<const SparseEntry> sample, Rows rows, float* p) const {
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

Guess judge(float score, float label) {
  const float p = sigmoid(score);
  const bool positive = is_positive(label);
  return {-clamped_log(positive ? p : 1.0 - p), p - (positive ? 1.0f : 0.0f)};
}

Result<std::unique_ptr<SparseModel>> make_sparse_model(std::string_view name,
                                                       const ModelShape& shape) {
  const auto refuse = [](std::string what) {
    return fail(ErrorCode::kInvalidArgument, std::move(what));
  };
  if (name == "lr") return std::make_unique<LogisticRegression>();
  if (name == "softmax") {
    if (shape.classes >= 2) return std::make_unique<Softmax>(shape.classes);
    return refuse(fmt::format("softmax: the data has {} label(s); two are needed", shape.classes));
  }
  if (name != "fm" && name != "deepfm") {
    return refuse(
        fmt::format("no such model: \"{}\"; there are lr, fm, deepfm, softmax, word2vec", name));
  }
  if (shape.factors == 0) return refuse(fmt::format("{}: at least one factor is needed", name));
  if (name == "fm") return std::make_unique<FactorizationMachine>(shape.factors);
  return make_deep_fm(shape);
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

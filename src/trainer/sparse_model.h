// Models whose parameters are rows by key: what a sample's rows predict, and how they should move.
// Some have dense parameters beside the rows, which every sample uses.
//
//   lr       row: w                 z = sum w x            p = 1 / (1 + exp(-z))
//   fm       row: w, v[factors]     z = sum w x + 1/2 sum_f ((sum v_f x)^2 - sum (v_f x)^2)
//                                   Rendle 2010, in the form that takes O(features x factors).
//   deepfm   row: as fm             z = fm's + layers(v x of all fields, side by side); deep_fm.h
//   softmax  row: w[classes]        z[c] = sum w_c x       p = softmax(z)
//
// The loss is the mean negative log likelihood. Labels of lr, fm and deepfm are 1 (or above) and 0
// (or below); of softmax class numbers. They know neither where rows live nor how gradients are
// summed.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "trainer/sparse_batch.h"

namespace sumcast::trainer {

/// A model's parameters, as a batch sees them.
struct ModelView {
  std::span<const float* const> rows;  ///< By place in batch.keys: f32[width()].
  const float* dense = nullptr;        ///< f32[dense()].
};
/// Where gradients go; all of it is overwritten.
struct GradientView {
  float* rows = nullptr;   ///< f32[batch.keys][width()]
  float* dense = nullptr;  ///< f32[dense()]
};

/// Knows shapes only: any number of threads may use one.
class SparseModel {
 public:
  virtual ~SparseModel() = default;

  /// f32 lanes of a key's row.
  virtual uint32_t width() const = 0;
  /// Scores of a sample: softmax: one per class; else one.
  virtual uint32_t scores() const = 0;
  /// Scale of new rows: small random numbers where zeros would never part (fm), else 0.
  virtual float init_scale() const = 0;
  /// Dense parameters, f32.
  virtual size_t dense() const { return 0; }
  /// Writes what they are before the first step: f32[dense()], equal bits on all machines.
  virtual void draw_dense(uint64_t /*seed*/, float* /*parameters*/) const {}

  /// Writes the batch's gradients, and returns its summed loss.
  ///
  /// @param share  what each sample counts: 1 / (samples of all workers' batches).
  virtual double learn(const SparseBatch& batch, const ModelView& model, float share,
                       const GradientView& gradients) const = 0;
  /// Probabilities, f32[batch][scores()].
  virtual void predict(const SparseBatch& batch, const ModelView& model, float* out) const = 0;
};

struct ModelShape {
  uint32_t classes = 2;                ///< softmax: number of labels, >= 2.
  uint32_t factors = 8;                ///< fm, deepfm: length of v, >= 1.
  uint32_t fields = 0;                 ///< deepfm: features' fields are below it, >= 1.
  std::vector<int> hidden = {64, 32};  ///< deepfm: layers between input and score.
};

/// @param name  "lr", "fm", "deepfm" or "softmax".
Result<std::unique_ptr<SparseModel>> make_sparse_model(std::string_view name,
                                                       const ModelShape& shape);

/// Mean negative log likelihood, with probabilities kept away from 0 and 1 by 1e-7.
double log_loss(std::span<const float> labels, std::span<const float> probabilities,
                uint32_t scores);
/// Share of samples whose most probable class is their label.
double top_1(std::span<const float> labels, std::span<const float> probabilities, uint32_t scores);
/// Area under the ROC curve; ties count half. 0.5 if all labels are alike.
double area_under_curve(std::span<const float> labels, std::span<const float> probabilities);

}  // namespace sumcast::trainer

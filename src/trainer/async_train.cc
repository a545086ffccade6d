#include "trainer/async_train.h"

#include <algorithm>

#include "pipeline/weights_hash.h"
#include "trainer/sgd.h"
#include "trainer/train_parts.h"

namespace sumcast::trainer {
namespace {

/// Weights and state, moved by whoever comes.
class Server {
 public:
  Server(std::span<float> weights, const pipeline::UpdateRule& rule)
      : weights_(weights),
        rule_(rule),
        planes_(rule.planes(), std::vector<float>(weights.size(), 0.0f)) {}

  void apply(std::span<const float> gradient, float rate) {
    pipeline::Parameters to{weights_.data(), {}};
    pipeline::ConstParameters from{weights_.data(), {}};
    for (size_t p = 0; p < planes_.size(); ++p) from.planes[p] = to.planes[p] = planes_[p].data();
    rule_.update(from, gradient, {rate, ++updates_}, to);
  }
  std::span<const float> weights() const { return weights_; }

 private:
  std::span<float> weights_;
  const pipeline::UpdateRule& rule_;
  std::vector<std::vector<float>> planes_;
  uint64_t updates_ = 0;
};

struct Worker {
  Mlp model;  ///< Its weights as they were fetched.
  BatchSampler sampler;
  Batch batch;
};

std::vector<Worker> make_workers(const FashionMnist& data, uint16_t count,
                                 const TrainOptions& options) {
  std::vector<Worker> workers;
  for (uint16_t rank = 0; rank < count; ++rank) {
    workers.push_back({make_model(data, options),
                       BatchSampler({Rank(rank), count}, images_used(data, options),
                                    static_cast<size_t>(options.batch), options.seed),
                       {}});
  }
  return workers;
}

}  // namespace

Result<TrainOutcome> train_by_turns(const FashionMnist& data, uint16_t workers,
                                    const TrainOptions& options) {
  if (auto checked = check_training(data, workers, options); !checked) {
    return fail(checked.error());
  }
  if (options.accumulate != 1) {
    return fail(ErrorCode::kInvalidArgument, "turns at a server do not accumulate micro-batches");
  }
  Mlp model = make_model(data, options);
  const auto rule = make_rule(options);
  Server server(model.parameters(), *rule);
  std::vector<Worker> crew = make_workers(data, workers, options);
  const int per_epoch = static_cast<int>(crew[0].sampler.steps_per_epoch());
  const int turns = options.epochs * per_epoch;
  const int updates = turns * workers;
  const int warmup = static_cast<int>(options.warmup_share * static_cast<float>(updates));
  const float share = 1.0f / static_cast<float>(workers);
  TrainOutcome outcome;
  for (int turn = 0; turn < turns; ++turn) {
    float loss = 0;
    for (uint16_t rank = 0; rank < workers; ++rank) {
      Worker& worker = crew[rank];
      if (turn % per_epoch == 0) {
        worker.sampler.start_epoch(static_cast<uint64_t>(turn / per_epoch));
      }
      gather(data.training, worker.sampler.indices(static_cast<size_t>(turn % per_epoch)),
             worker.batch);
      loss += share * worker.model.forward_backward(worker.batch);
      const float rate = learning_rate(options.rate, warmup, turn * workers + rank, updates);
      server.apply(worker.model.gradients(), share * rate);
      std::ranges::copy(server.weights(), worker.model.parameters().begin());
    }
    outcome.losses.push_back(loss);
    if ((turn + 1) % per_epoch == 0 && options.score_epochs) {
      outcome.epoch_accuracies.push_back(model.accuracy(data.test));
    }
  }
  outcome.gradient_bytes = model.gradients().size_bytes();
  outcome.accuracy = model.accuracy(data.test);
  outcome.weights_hash = pipeline::hash_of_bits(model.parameters());
  return outcome;
}

}  // namespace sumcast::trainer

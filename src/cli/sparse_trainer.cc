#include "cli/sparse_trainer.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/prng.h"
#include "cli/sleep_until.h"
#include "hotset/corpus.h"
#include "runtime/clock.h"
#include "sparse/auto_path.h"
#include "sparse/balance.h"

namespace sumcast::cli {
namespace {

constexpr size_t kTrialTrack = kSparsePaths;  // What auto tries trains copies of its own.
constexpr uint32_t kSampleBatches = 96;  // That hot keys are chosen from: none that are trained on.

}  // namespace

Result<std::unique_ptr<SparseTrainer>> SparseTrainer::create(sparse::Worker& worker,
                                                             const SparseFlags& flags,
                                                             const Context& context,
                                                             std::optional<Group> forward) {
  auto stream = make_sparse_stream(flags);
  if (!stream) return fail(stream.error());
  std::unique_ptr<SparseTrainer> trainer(new SparseTrainer(worker, flags));
  trainer->position_.resize(kSparsePaths + 1, 0);
  trainer->chosen_.resize(kSparsePaths);
  trainer->batches_ = draw_sparse_batches(**stream, flags, context.rank());
  trainer->gradients_.resize(trainer->batches_.noise.size());
  trainer->choose_hot(**stream, context.payload_bytes());
  if (!forward) return trainer;
  auto job = sparse_options(flags);
  if (!job) return fail(job.error());
  trainer->track_ = static_cast<size_t>(SparsePath::kForward);
  auto worker_of =
      ForwardWorker::create(worker, std::move(*forward), *job, trainer->copies_of(trainer->hot_));
  if (!worker_of) return fail(worker_of.error());
  trainer->forward_ = std::move(*worker_of);
  return trainer;
}

/// The same on all workers: they sample alike.
void SparseTrainer::choose_hot(const dataset::KeyStream& stream, size_t payload_bytes) {
  Prng random(flags_.seed * 7'368'787 + 1);
  hotset::Corpus corpus;
  std::vector<uint64_t> keys;
  for (uint32_t row = 0; row < kSampleBatches * flags_.batch; ++row) {
    stream.next_batch(1, random, keys);
    corpus.add_row(keys);
  }
  const auto model = sparse::link_model(*sparse_options(flags_), payload_bytes);
  const auto most =
      static_cast<size_t>(flags_.hot_share_max * static_cast<double>(stream.vocabulary()));
  hot_ = sparse::choose_hot_keys(model, corpus, flags_.batch, most);
}

uint64_t SparseTrainer::copy_of(uint64_t key) const {
  return key ^ ((track_ + 1) * 0x9E3779B97F4A7C15u);
}

std::vector<uint64_t> SparseTrainer::copies_of(const std::vector<uint64_t>& keys) const {
  std::vector<uint64_t> copies;
  copies.reserve(keys.size());
  for (const uint64_t key : keys) copies.push_back(copy_of(key));
  return copies;
}

std::vector<uint64_t> SparseTrainer::batch_of(uint64_t round) const {
  return copies_of(batches_.keys[round % batches_.keys.size()]);
}

Result<void> SparseTrainer::prepare(SparsePath path) {
  std::string& chosen = chosen_[static_cast<size_t>(path)];
  if (path == SparsePath::kAuto && chosen.empty()) {
    track_ = kTrialTrack;
    auto is_hot = sparse::choose_path(worker_, copies_of(hot_),
                                      [&](uint32_t rounds) { return train(rounds); });
    if (!is_hot) return fail(is_hot.error());
    chosen = *is_hot ? "dual" : "servers";
  }
  track_ = static_cast<size_t>(path);
  const bool is_hot = path == SparsePath::kDual || chosen == "dual";
  const auto hot = is_hot ? copies_of(hot_) : std::vector<uint64_t>();
  if (auto set = worker_.set_hot(hot); !set) return set;
  if (forward_) forward_->forget_keys();  // They were the worker's, which others have used since.
  // Up to half a period, so that the flush in the block carries a whole period's rows.
  return train(flags_.flush_every / 2);
}

/// The current batch and those ahead of it.
template <typename Rows>
Result<void> SparseTrainer::begin_batches(Rows& rows, uint64_t at) {
  if (auto pulled = rows.pull(batch_of(at)); !pulled) return pulled;
  if constexpr (requires { rows.announce(std::span<const uint64_t>()); }) {
    for (uint32_t i = 1; i <= flags_.staleness; ++i) {
      if (auto asked = rows.announce(batch_of(at + i)); !asked) return asked;
    }
  }
  return {};
}

/// Gradients are real and depend on the rows, so that a stale row would show in all that follow.
template <typename Rows>
Result<void> SparseTrainer::train_with(Rows& rows, uint32_t rounds) {
  uint64_t& at = position_[track_];
  if (rows.keys() == 0) {
    if (auto begun = begin_batches(rows, at); !begun) return begun;
  }
  for (uint32_t i = 0; i < rounds; ++i) {
    for (size_t key = 0; key < rows.keys(); ++key) {
      const float* const row = rows.row(key);
      for (uint32_t lane = 0; lane < flags_.width; ++lane) {
        gradients_[key * flags_.width + lane] =
            batches_.noise[key * flags_.width + lane] + 0.1f * row[lane];
      }
    }
    const auto next = batch_of(at + 1 + flags_.staleness);
    if (auto done = rows.push_pull(gradients_.data(), next); !done) return done;
    ++at;
    if (flags_.flush_every != 0 && at % flags_.flush_every == 0) {
      if (auto done = worker_.flush(); !done) return done;
    }
  }
  return {};
}

Result<void> SparseTrainer::train(uint32_t rounds) {
  return forwards() ? train_with(*forward_, rounds) : train_with(worker_, rounds);
}

template <typename Rows>
uint64_t SparseTrainer::hash_of(const Rows& rows, uint32_t width) {
  uint64_t hash = rows.keys();
  for (size_t i = 0; i < rows.keys(); ++i) {
    for (uint32_t lane = 0; lane < width; ++lane) {
      hash = table::hash_with(hash, std::bit_cast<uint32_t>(rows.row(i)[lane]));
    }
  }
  return hash;
}

Result<SparseBlock> SparseTrainer::run(uint32_t rounds, Instant start) {
  sleep_until(start);
  const sparse::WorkerCounters before = worker_.counters();
  const uint64_t forwarded = forward_ ? forward_->hot_pushed() : 0;
  const Instant begun = runtime::monotonic_now();
  if (auto done = train(rounds); !done) return fail(done.error());
  if (!forwards()) {  // Rounds that are under way belong to the block.
    if (auto ended = worker_.catch_up(); !ended) return fail(ended.error());
  }
  const Duration wall = runtime::monotonic_now() - begun;
  SparseBlock block;
  block.round_us = static_cast<double>(wall.count()) / 1e3 / rounds;
  block.hash = forwards() ? hash_of(*forward_, flags_.width) : hash_of(worker_, flags_.width);
  block.hot_pushed = worker_.counters().hot_pushed - before.hot_pushed;
  if (forward_) block.hot_pushed += forward_->hot_pushed() - forwarded;
  block.cold_pushed = worker_.counters().cold_pushed - before.cold_pushed;
  block.hot_keys = forwards() ? hot_.size() : worker_.hot_keys();
  block.chosen = chosen_[track_];
  return block;
}

}  // namespace sumcast::cli

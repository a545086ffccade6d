#include "cli/async_server.h"

#include <algorithm>
#include <optional>
#include <thread>

#include "base/assert.h"

namespace sumcast::cli {
namespace {

constexpr uint32_t kServer = 0;
/// Tag of headers; chunk c of a gradient has tag 1 + 2c, its weights the one after.
constexpr uint64_t kHeaderTag = 0;

/// In front of a worker's step.
struct StepHeader {
  uint32_t goes_on = 0;  ///< 0: the worker is done, nothing follows.
  float rate = 0;
};

uint64_t gradient_tag(size_t chunk) { return 1 + 2 * uint64_t{chunk}; }
uint64_t weights_tag(size_t chunk) { return 2 + 2 * uint64_t{chunk}; }

size_t chunks_of(size_t count) { return (count + kAsyncChunk - 1) / kAsyncChunk; }

Result<void> wait_all(std::vector<Work>& works) {
  for (Work& work : works) {
    if (auto done = work.wait(); !done) return done;
  }
  works.clear();
  return {};
}

}  // namespace

AsyncServer::AsyncServer(Group& group, const pipeline::UpdateRule& rule, std::span<float> weights)
    : group_(group), rule_(rule), weights_(weights), shards_(chunks_of(weights.size())) {
  SUMCAST_ASSERT(group.rank() == kServer);
  planes_.assign(rule.planes(), std::vector<float>(weights.size(), 0.0f));
}

std::span<float> AsyncServer::part(std::span<float> of, size_t chunk) const {
  const size_t first = chunk * kAsyncChunk;
  return of.subspan(first, std::min(kAsyncChunk, of.size() - first));
}

Result<void> AsyncServer::serve() {
  std::mutex mutex;
  std::optional<Error> first;
  std::vector<std::thread> threads;
  for (uint32_t worker = 1; worker < group_.size(); ++worker) {
    threads.emplace_back([&, worker] {
      // They outlive the abort: until then messages under way may use them.
      std::vector<float> gradient(weights_.size()), answer(weights_.size());
      const Result<void> served = serve_one(worker, gradient, answer);
      if (served) return;
      {
        std::lock_guard lock(mutex);
        if (!first) first = served.error();
      }
      // The others would wait for workers that wait for an answer of this thread.
      group_.abort(served.error().what);
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (first) return fail(first->within("asynchronous server"));
  return {};
}

Result<void> AsyncServer::serve_one(uint32_t worker, std::span<float> gradient,
                                    std::span<float> answer) {
  std::vector<Work> arriving, leaving;
  while (true) {
    StepHeader header;
    const Message hello{&header, sizeof(header), worker, kHeaderTag};
    if (auto got = group_.exchange({}, std::span(&hello, 1)); !got) return got;
    if (header.goes_on == 0) return {};
    for (size_t chunk = 0; chunk < shards_.size(); ++chunk) {
      const std::span<float> into = part(gradient, chunk);
      const Message push{into.data(), into.size_bytes(), worker, gradient_tag(chunk)};
      auto begun = group_.exchange_async({}, std::span(&push, 1));
      if (!begun) return fail(begun.error());
      arriving.push_back(std::move(*begun));
    }
    for (size_t chunk = 0; chunk < shards_.size(); ++chunk) {
      if (auto got = arriving[chunk].wait(); !got) return got;
      const std::span<float> out = part(answer, chunk);
      apply(chunk, part(gradient, chunk), header.rate, out);
      const Message pull{out.data(), out.size_bytes(), worker, weights_tag(chunk)};
      auto begun = group_.exchange_async(std::span(&pull, 1), {});
      if (!begun) return fail(begun.error());
      leaving.push_back(std::move(*begun));
    }
    arriving.clear();
    if (auto sent = wait_all(leaving); !sent) return sent;
  }
}

void AsyncServer::apply(size_t chunk, std::span<const float> gradient, float rate,
                        std::span<float> out) {
  Shard& shard = shards_[chunk];
  std::lock_guard lock(shard.mutex);
  const std::span<float> weights = part(weights_, chunk);
  pipeline::Parameters at{weights.data(), {}};
  pipeline::ConstParameters from{weights.data(), {}};
  for (size_t p = 0; p < planes_.size(); ++p) {
    at.planes[p] = part(planes_[p], chunk).data();
    from.planes[p] = at.planes[p];
  }
  rule_.update(from, gradient, {rate, ++shard.updates}, at);
  std::copy(weights.begin(), weights.end(), out.begin());
}

Result<void> AsyncWorker::step(std::span<const float> gradient, float rate,
                               std::span<float> weights) {
  SUMCAST_ASSERT(gradient.size() == weights.size());
  SUMCAST_ASSERT(group_.rank() != kServer);
  StepHeader header{1, rate};
  // A send is not written to; the API has one type for both directions.
  auto* const from = const_cast<float*>(gradient.data());
  std::vector<Message> sends = {{&header, sizeof(header), kServer, kHeaderTag}}, receives;
  for (size_t chunk = 0; chunk < chunks_of(gradient.size()); ++chunk) {
    const size_t first = chunk * kAsyncChunk;
    const size_t bytes = std::min(kAsyncChunk, gradient.size() - first) * sizeof(float);
    sends.push_back({from + first, bytes, kServer, gradient_tag(chunk)});
    receives.push_back({weights.data() + first, bytes, kServer, weights_tag(chunk)});
  }
  return group_.exchange(sends, receives);
}

Result<void> AsyncWorker::done() {
  StepHeader header;
  const Message last{&header, sizeof(header), kServer, kHeaderTag};
  return group_.exchange(std::span(&last, 1), {});
}

}  // namespace sumcast::cli

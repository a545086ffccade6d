// An asynchronous parameter server and its workers, over messages between the ranks of a group.
//
// Rank 0 of the group holds weights and optimiser state; every other rank pushes gradients and
// pulls weights at its own pace. A step of a worker is one header and its gradient in chunks; each
// chunk is applied as it arrives and answered at once with the chunk's weights as they then are, so
// that both directions of the server's link are used at the same time. Nobody waits for another
// worker: a gradient is applied to weights that others have moved meanwhile, chunk by chunk. The
// server has a thread per worker; a lock per chunk orders their updates.
#pragma once

#include <mutex>
#include <span>
#include <vector>

#include "base/result.h"
#include "pipeline/update_rule.h"
#include "sumcast/sumcast.hpp"

namespace sumcast::cli {

/// Elements of a chunk: a quarter of a MiB.
inline constexpr size_t kAsyncChunk = size_t{64} << 10;

/// On rank 0.
class AsyncServer {
 public:
  /// @param rule     outlives this. Its updates of a chunk are counted by chunk.
  /// @param weights  f32[n], first what training starts from, then the trained ones.
  AsyncServer(Group& group, const pipeline::UpdateRule& rule, std::span<float> weights);
  /// Serves until every worker has said that it is done. The first error of any worker ends it.
  Result<void> serve();

 private:
  struct Shard {
    std::mutex mutex;
    uint64_t updates = 0;
  };

  Result<void> serve_one(uint32_t worker, std::span<float> gradient, std::span<float> answer);
  void apply(size_t chunk, std::span<const float> gradient, float rate, std::span<float> out);
  std::span<float> part(std::span<float> of, size_t chunk) const;

  Group& group_;
  const pipeline::UpdateRule& rule_;
  std::span<float> weights_;
  std::vector<std::vector<float>> planes_;
  std::vector<Shard> shards_;
};

/// On every other rank. One thread.
class AsyncWorker {
 public:
  explicit AsyncWorker(Group& group) : group_(group) {}
  /// Pushes the gradient, applied with `rate`, and leaves the server's weights in `weights`, of
  /// equal length.
  Result<void> step(std::span<const float> gradient, float rate, std::span<float> weights);
  /// Says that no further step comes.
  Result<void> done();

 private:
  Group& group_;
};

}  // namespace sumcast::cli

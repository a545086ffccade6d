// What the tests of this room share: several ranks in threads of one process, over loopback.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "mesh/algorithms.h"
#include "mesh/mesh.h"
#include "net/descriptor.h"

namespace sumcast::mesh {

inline constexpr Incarnation kTestIncarnation{77};

inline auth::Key test_key(uint8_t fill) {
  auth::Key key;
  key.bytes.fill(std::byte{fill});
  return key;
}

class TestWorld {
 public:
  using Outcomes = std::vector<Result<void>>;

  explicit TestWorld(uint32_t size, std::optional<auth::Key> key = test_key(1)) {
    std::vector<net::Endpoint> peers;
    for (uint32_t rank = 0; rank < size; ++rank) {
      auto mesh = Mesh::open(net::Endpoint::loopback(net::Family::kIpv4, 0), key);
      if (!mesh) throw std::runtime_error(mesh.error().what);
      meshes_.push_back(std::move(*mesh));
      peers.push_back(meshes_.back()->endpoint());
    }
    for (uint32_t rank = 0; rank < size; ++rank) {
      meshes_[rank]->start(kTestIncarnation, Rank(static_cast<uint16_t>(rank)), peers);
    }
  }

  uint32_t size() const { return static_cast<uint32_t>(meshes_.size()); }
  Mesh& mesh(uint32_t rank) { return *meshes_[rank]; }
  void kill(uint32_t rank) { meshes_[rank].reset(); }

  /// A call of all ranks, in order.
  MeshCall call(uint32_t rank, uint32_t sequence, GroupId group = GroupId(0)) const {
    MeshCall call;
    call.group = group;
    for (uint32_t r = 0; r < size(); ++r) call.ranks.emplace_back(static_cast<uint16_t>(r));
    call.me = rank;
    call.sequence = sequence;
    call.digest = 1000 + sequence;
    call.deadline = net::monotonic_now() + 30s;
    return call;
  }

  /// Runs `body(rank)` on a thread per rank (but those that were killed) and collects what came
  /// out.
  Outcomes run(const std::function<Result<void>(uint32_t)>& body) {
    Outcomes outcomes(size());
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < size(); ++rank) {
      if (!meshes_[rank]) continue;
      threads.emplace_back([&, rank] { outcomes[rank] = body(rank); });
    }
    for (std::thread& thread : threads) thread.join();
    return outcomes;
  }

 private:
  std::vector<std::unique_ptr<Mesh>> meshes_;
};

inline void expect_success(const TestWorld::Outcomes& outcomes) {
  for (size_t rank = 0; rank < outcomes.size(); ++rank) {
    EXPECT_TRUE(outcomes[rank]) << "rank " << rank << ": " << outcomes[rank].error().what;
  }
}

}  // namespace sumcast::mesh

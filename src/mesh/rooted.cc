// Collectives with a root, and the barrier.
//
// Places are counted from the root, which is 0 below. Small tensors go along a binomial tree: a
// place's parent is the place without its lowest set bit. Large ones go along the chain 0, 1, 2,
// ..., every place passing on while it receives, so that each link carries the tensor once and all
// links work at the same time.
#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "mesh/algorithms.h"
#include "mesh/steps.h"

namespace sumcast::mesh {
namespace {

constexpr size_t kTreeBytesMax = 16 << 10;
// A chain's partial sums pass through this much working memory, used in turn.
constexpr size_t kChainPieceBytes = 64 << 10;
constexpr size_t kChainPieces = 8;

/// Places counted from a root.
class Turned {
 public:
  Turned(const Steps& steps, uint32_t root) : root_(root), size_(steps.size()) {
    self_ = (steps.me() + size_ - root) % size_;
  }
  uint32_t self() const { return self_; }
  uint32_t size() const { return size_; }
  uint32_t place_of(uint32_t turned) const { return (turned + root_) % size_; }
  /// First distance at which `self` has no child: its lowest set bit, or the tree's width.
  uint32_t reach() const { return self_ == 0 ? std::bit_ceil(size_) : self_ & (~self_ + 1); }
  uint32_t parent() const { return place_of(self_ - reach()); }

 private:
  uint32_t root_, size_, self_ = 0;
};

Result<void> broadcast_tree(Steps& steps, const Turned& turned, std::byte* data, size_t bytes) {
  if (turned.self() != 0) {
    const Incoming all{data, bytes};
    auto got = steps.transfer(std::nullopt, {}, turned.parent(), std::span(&all, 1));
    if (!got) return got;
  }
  const Outgoing all{data, bytes, kNoPiece};
  for (uint32_t distance = turned.reach() / 2; distance > 0; distance /= 2) {
    if (turned.self() + distance >= turned.size()) continue;
    auto sent = steps.transfer(turned.place_of(turned.self() + distance), std::span(&all, 1),
                               std::nullopt, {});
    if (!sent) return sent;
  }
  return {};
}

Result<void> broadcast_chain(Steps& steps, const Turned& turned, std::byte* data, size_t bytes) {
  const bool first = turned.self() == 0;
  const bool final = turned.self() + 1 == turned.size();
  const Outgoing out{data, bytes, first ? kNoPiece : 0};
  const Incoming in{data, bytes};
  std::optional<uint32_t> to, from;
  if (!final) to = turned.place_of(turned.self() + 1);
  if (!first) from = turned.place_of(turned.self() - 1);
  return steps.transfer(to, std::span(&out, final ? 0 : 1), from, std::span(&in, first ? 0 : 1));
}

Result<void> reduce_tree(Steps& steps, const Turned& turned, const std::byte* in, std::byte* out,
                         size_t bytes) {
  const bool is_root = turned.self() == 0;
  std::byte* sum = is_root ? out : steps.scratch();
  const std::byte* have = in;
  for (uint32_t distance = 1; distance < turned.reach(); distance *= 2) {
    if (turned.self() + distance >= turned.size()) break;
    const bool complete = is_root && distance * 2 >= turned.size();
    const Incoming piece{sum, bytes, have, complete ? steps.last() : steps.hop(), kNoPiece};
    auto got = steps.transfer(std::nullopt, {}, turned.place_of(turned.self() + distance),
                              std::span(&piece, 1));
    if (!got) return got;
    have = sum;
  }
  if (is_root) return {};
  const Outgoing all{have, bytes, kNoPiece};
  return steps.transfer(turned.parent(), std::span(&all, 1), std::nullopt, {});
}

/// From the far end of the chain to the root.
Result<void> reduce_chain(Steps& steps, const Turned& turned, const std::byte* in, std::byte* out,
                          size_t bytes) {
  const bool is_root = turned.self() == 0;
  const bool is_end = turned.self() + 1 == turned.size();
  if (is_end) {
    const Outgoing all{in, bytes, kNoPiece};
    return steps.transfer(turned.place_of(turned.self() - 1), std::span(&all, 1), std::nullopt, {});
  }
  const uint32_t from = turned.place_of(turned.self() + 1);
  if (is_root) {
    const Incoming all{out, bytes, in, steps.last(), kNoPiece};
    return steps.transfer(std::nullopt, {}, from, std::span(&all, 1));
  }
  std::vector<Outgoing> outgoing;
  std::vector<Incoming> incoming;
  uint32_t index = 0;
  for (size_t begin = 0; begin < bytes; begin += kChainPieceBytes, ++index) {
    const size_t length = std::min(kChainPieceBytes, bytes - begin);
    std::byte* place = steps.scratch() + index % kChainPieces * kChainPieceBytes;
    const uint32_t after =
        index < kChainPieces ? kNoPiece : index - static_cast<uint32_t>(kChainPieces);
    incoming.push_back({place, length, in + begin, steps.hop(), after});
    outgoing.push_back({place, length, index});
  }
  return steps.transfer(turned.place_of(turned.self() - 1), outgoing, from, incoming);
}

}  // namespace

Result<void> broadcast(Mesh& mesh, const MeshCall& call, void* data, uint64_t count,
                       ElementType type, uint32_t root) {
  if (auto valid = check_root(call, root); !valid) return valid;
  const size_t bytes = count * element_bytes(type);
  Steps steps(mesh, call, type, Reduction::kCopy);
  if (steps.size() == 1) return {};
  const Turned turned(steps, root);
  return steps.finish(bytes <= kTreeBytesMax
                          ? broadcast_tree(steps, turned, as_bytes(data), bytes)
                          : broadcast_chain(steps, turned, as_bytes(data), bytes));
}

Result<void> reduce(Mesh& mesh, const MeshCall& call, const void* in, void* out, uint64_t count,
                    ElementType type, Reduction reduction, uint32_t root) {
  if (auto valid = check_root(call, root); !valid) return valid;
  if (auto valid = check_reduction(type, reduction); !valid) return valid;
  const size_t bytes = count * element_bytes(type);
  Steps steps(mesh, call, type, reduction, kChainPieces * kChainPieceBytes);
  if (steps.size() == 1) {
    steps.fold(std::array{as_bytes(in)}, bytes, as_bytes(out));
    return {};
  }
  const Turned turned(steps, root);
  return steps.finish(bytes <= kTreeBytesMax
                          ? reduce_tree(steps, turned, as_bytes(in), as_bytes(out), bytes)
                          : reduce_chain(steps, turned, as_bytes(in), as_bytes(out), bytes));
}

Result<void> barrier(Mesh& mesh, const MeshCall& call) {
  Steps steps(mesh, call, ElementType::kU8, Reduction::kCopy);
  const uint32_t n = steps.size();
  for (uint32_t distance = 1; distance < n; distance *= 2) {
    const uint32_t to = (call.me + distance) % n;
    const uint32_t from = (call.me + n - distance) % n;
    auto met = steps.transfer(to, {}, from, {});
    if (!met) return steps.finish(met);
  }
  return {};
}

}  // namespace sumcast::mesh

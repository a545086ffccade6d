// The ring: place p sends to p + 1 and receives from p - 1.
//
// All-reduce of n chunks, as two lists for the pump. Step s receives chunk p - s - 1 and sends the
// chunk that step s - 1 has received (step 0: chunk p, raw). For the first n - 1 steps what arrives
// is added; after them place p holds chunk p + 1 complete, and the other n - 1 steps store what
// arrives. In place is safe without further care: an element is overwritten only by values that
// were made from this rank's own copy of it, which had been sent by then.
#include <array>
#include <cstring>
#include <vector>

#include "mesh/algorithms.h"
#include "mesh/steps.h"

namespace sumcast::mesh {
namespace {

uint32_t next_of(const Steps& steps) { return (steps.me() + 1) % steps.size(); }
uint32_t before(const Steps& steps) { return (steps.me() + steps.size() - 1) % steps.size(); }

/// Pieces of an all-gather of `bytes` per place into `all`; this place's own comes from `own`.
void list_gather(const Steps& steps, const std::byte* own, std::byte* all, size_t bytes,
                 std::vector<Outgoing>& outgoing, std::vector<Incoming>& incoming) {
  const uint32_t n = steps.size();
  for (uint32_t s = 0; s + 1 < n; ++s) {
    if (s == 0) {
      outgoing.push_back({own, bytes, kNoPiece});
    } else {
      outgoing.push_back({incoming[s - 1].target, bytes, s - 1});
    }
    const uint32_t from = (steps.me() + n - s - 1) % n;
    incoming.push_back({all + from * bytes, bytes});
  }
}

/// Tiny tensors: everybody gets everybody's values, in half the hops, and adds them itself.
Result<void> gather_and_fold(Steps& steps, const std::byte* in, std::byte* out, size_t bytes) {
  const uint32_t n = steps.size();
  std::vector<Outgoing> outgoing;
  std::vector<Incoming> incoming;
  outgoing.reserve(n);
  incoming.reserve(n);
  list_gather(steps, in, steps.scratch(), bytes, outgoing, incoming);
  auto moved = steps.transfer(next_of(steps), outgoing, before(steps), incoming);
  if (!moved) return moved;
  std::vector<const std::byte*> sources(n);
  for (uint32_t p = 0; p < n; ++p) {
    sources[p] = p == steps.me() ? in : steps.scratch() + p * bytes;
  }
  steps.fold(sources, bytes, out);
  return {};
}

}  // namespace

Result<void> ring_all_reduce(Mesh& mesh, const MeshCall& call, const void* in, void* out,
                             uint64_t count, ElementType type, Reduction reduction) {
  if (auto valid = check_reduction(type, reduction); !valid) return valid;
  const size_t bytes = count * element_bytes(type);
  const std::byte* own = as_bytes(in);
  std::byte* result = as_bytes(out);
  const auto n = static_cast<uint32_t>(call.ranks.size());
  const bool tiny = bytes <= kTinyBytes / n;
  Steps steps(mesh, call, type, reduction, tiny ? n * bytes : 0);
  if (n == 1) {
    steps.fold(std::array{own}, bytes, result);
    return {};
  }
  if (tiny) return steps.finish(gather_and_fold(steps, own, result, bytes));

  std::vector<Outgoing> outgoing;
  std::vector<Incoming> incoming;
  outgoing.reserve(2 * n);
  incoming.reserve(2 * n);
  for (uint32_t s = 0; s + 2 < 2 * n; ++s) {
    const Extent sent = part_of({0, bytes}, (call.me + 2 * n - s) % n, n);
    const std::byte* source = s == 0 ? own : result;
    outgoing.push_back({source + sent.begin, sent.bytes(), s == 0 ? kNoPiece : s - 1});
    const Extent got = part_of({0, bytes}, (call.me + 2 * n - s - 1) % n, n);
    Incoming piece{result + got.begin, got.bytes()};
    if (s + 1 < n) {
      piece.own = own + got.begin;
      piece.reduction = s + 2 < n ? steps.hop() : steps.last();
    }
    incoming.push_back(piece);
  }
  return steps.finish(steps.transfer(next_of(steps), outgoing, before(steps), incoming));
}

Result<void> ring_reduce_scatter(Mesh& mesh, const MeshCall& call, const void* in, void* out,
                                 uint64_t count, ElementType type, Reduction reduction) {
  if (auto valid = check_reduction(type, reduction); !valid) return valid;
  const size_t bytes = count * element_bytes(type);
  const std::byte* own = as_bytes(in);
  const auto n = static_cast<uint32_t>(call.ranks.size());
  // Partial sums pass through two chunks of working memory, used in turn.
  Steps steps(mesh, call, type, reduction, n > 2 ? 2 * bytes : 0);
  if (n == 1) {
    steps.fold(std::array{own}, bytes, as_bytes(out));
    return {};
  }
  // One place behind the all-reduce's, so that the chunk which is complete last is this place's.
  std::vector<Outgoing> outgoing;
  std::vector<Incoming> incoming;
  for (uint32_t s = 0; s + 1 < n; ++s) {
    if (s == 0) {
      outgoing.push_back({own + (call.me + n - 1) % n * bytes, bytes, kNoPiece});
    } else {
      outgoing.push_back({incoming[s - 1].target, bytes, s - 1});
    }
    const bool complete = s + 2 == n;
    Incoming piece;
    piece.target = complete ? as_bytes(out) : steps.scratch() + s % 2 * bytes;
    piece.bytes = bytes;
    piece.own = own + (call.me + 2 * n - s - 2) % n * bytes;
    piece.reduction = complete ? steps.last() : steps.hop();
    // This half of the working memory holds what step s - 2 received and step s - 1 sends.
    if (!complete && s >= 2) piece.after = s - 1;
    incoming.push_back(piece);
  }
  return steps.finish(steps.transfer(next_of(steps), outgoing, before(steps), incoming));
}

Result<void> ring_all_gather(Mesh& mesh, const MeshCall& call, const void* in, void* out,
                             uint64_t count, ElementType type) {
  const size_t bytes = count * element_bytes(type);
  Steps steps(mesh, call, type, Reduction::kCopy);
  std::byte* mine = as_bytes(out) + call.me * bytes;
  if (bytes > 0 && mine != in) std::memcpy(mine, in, bytes);
  if (steps.size() == 1) return {};
  std::vector<Outgoing> outgoing;
  std::vector<Incoming> incoming;
  list_gather(steps, mine, as_bytes(out), bytes, outgoing, incoming);
  return steps.finish(steps.transfer(next_of(steps), outgoing, before(steps), incoming));
}

}  // namespace sumcast::mesh

// Recursive vector halving and distance doubling, then the same way back.
//
//   round 0   partner at distance 1, exchange halves of the vector, add
//   round 1   partner at distance 2, exchange halves of that half, add
//   ...       after log2 n rounds each rank holds 1/n of the result
//   back      partners in reverse order, each gives what it holds: the extents double again
//
// Far partners thus get the small parts. If n is no power of two, let s be the surplus over one:
// of the first 2s places each even one hands its vector to its odd neighbour, sits out, and gets
// the result at the end.
//
// Tiny vectors are not halved: partners exchange and add all of it, log2 n hops in total. Both
// partners add the same two vectors, and a + b has the bits of b + a, so all ranks agree.
#include <array>
#include <bit>

#include "mesh/algorithms.h"
#include "mesh/steps.h"

namespace sumcast::mesh {
namespace {

/// The ranks that take part in the rounds, numbered from 0; a power of two.
struct Rounds {
  uint32_t surplus;
  uint32_t size;
  uint32_t self;

  uint32_t place_of(uint32_t id) const { return id < surplus ? 2 * id + 1 : id + surplus; }
};

struct Vector {
  const std::byte* source;  ///< This rank's values: `in` until they were first added to.
  std::byte* result;
  size_t bytes;
};

Result<void> exchange_whole(Steps& steps, const Rounds& rounds, Vector vector) {
  for (uint32_t distance = 1; distance < rounds.size; distance *= 2) {
    const uint32_t partner = rounds.place_of(rounds.self ^ distance);
    const Outgoing all{vector.source, vector.bytes, kNoPiece};
    const Reduction reduction = distance * 2 == rounds.size ? steps.last() : steps.hop();
    // What is added to may be what is still being sent.
    const Incoming sum{vector.result, vector.bytes, vector.source, reduction, 0};
    auto moved = steps.transfer(partner, std::span(&all, 1), partner, std::span(&sum, 1));
    if (!moved) return moved;
    vector.source = vector.result;
  }
  return {};
}

/// The half of `whole` that this rank keeps, or gives away, in the round of this distance.
Extent half(Extent whole, const Rounds& rounds, uint32_t distance, bool kept) {
  const bool upper = (rounds.self & distance) != 0;
  return part_of(whole, upper == kept ? 1 : 0, 2);
}

Result<void> exchange_halves(Steps& steps, const Rounds& rounds, Vector vector) {
  std::array<Extent, 33> extents{Extent{0, vector.bytes}};  // By round; the last is what remains.
  size_t round = 0;
  for (uint32_t distance = 1; distance < rounds.size; distance *= 2, ++round) {
    const uint32_t partner = rounds.place_of(rounds.self ^ distance);
    const Extent given = half(extents[round], rounds, distance, false);
    const Extent kept = half(extents[round], rounds, distance, true);
    const Outgoing away{vector.source + given.begin, given.bytes(), kNoPiece};
    const Reduction reduction = distance * 2 == rounds.size ? steps.last() : steps.hop();
    const Incoming sum{vector.result + kept.begin, kept.bytes(), vector.source + kept.begin,
                       reduction, kNoPiece};
    auto moved = steps.transfer(partner, std::span(&away, 1), partner, std::span(&sum, 1));
    if (!moved) return moved;
    extents[round + 1] = kept;
    vector.source = vector.result;
  }
  for (uint32_t distance = rounds.size / 2; distance > 0; distance /= 2) {
    const uint32_t partner = rounds.place_of(rounds.self ^ distance);
    const Extent mine = extents[round];
    --round;
    const Extent theirs = half(extents[round], rounds, distance, false);
    const Outgoing have{vector.result + mine.begin, mine.bytes(), kNoPiece};
    const Incoming want{vector.result + theirs.begin, theirs.bytes()};
    auto moved = steps.transfer(partner, std::span(&have, 1), partner, std::span(&want, 1));
    if (!moved) return moved;
  }
  return {};
}

Result<void> run(Steps& steps, Vector vector) {
  const uint32_t size = std::bit_floor(steps.size());
  const uint32_t surplus = steps.size() - size;
  const bool paired = steps.me() < 2 * surplus;
  if (paired && steps.me() % 2 == 0) {
    const uint32_t neighbour = steps.me() + 1;
    const Outgoing all{vector.source, vector.bytes, kNoPiece};
    auto given = steps.transfer(neighbour, std::span(&all, 1), std::nullopt, {});
    if (!given) return given;
    const Incoming result{vector.result, vector.bytes};
    return steps.transfer(std::nullopt, {}, neighbour, std::span(&result, 1));
  }
  if (paired) {
    const Incoming sum{vector.result, vector.bytes, vector.source, steps.hop(), kNoPiece};
    auto got = steps.transfer(std::nullopt, {}, steps.me() - 1, std::span(&sum, 1));
    if (!got) return got;
    vector.source = vector.result;
  }
  const Rounds rounds{surplus, size, paired ? steps.me() / 2 : steps.me() - surplus};
  auto done = vector.bytes <= kTinyBytes ? exchange_whole(steps, rounds, vector)
                                         : exchange_halves(steps, rounds, vector);
  if (!done || !paired) return done;
  const Outgoing all{vector.result, vector.bytes, kNoPiece};
  return steps.transfer(steps.me() - 1, std::span(&all, 1), std::nullopt, {});
}

}  // namespace

Result<void> halving_doubling_all_reduce(Mesh& mesh, const MeshCall& call, const void* in,
                                         void* out, uint64_t count, ElementType type,
                                         Reduction reduction) {
  if (auto valid = check_reduction(type, reduction); !valid) return valid;
  const size_t bytes = count * element_bytes(type);
  Steps steps(mesh, call, type, reduction);
  if (steps.size() == 1) {
    steps.fold(std::array{as_bytes(in)}, bytes, as_bytes(out));
    return {};
  }
  return steps.finish(run(steps, {as_bytes(in), as_bytes(out), bytes}));
}

}  // namespace sumcast::mesh

// The collectives that other systems use, over TCP: what Sumcast is measured against.
//
// They are written to be fast, as a rival's would be. What they cannot give is the canonical sum:
// a ring adds each chunk in another order, so float results depend on the algorithm and on the
// number of ranks, though all ranks get the same bits. f16 and bf16 are rounded at every hop, as
// rings do. Integers and bool, and min and max of floats, are the same everywhere (docs/numerics.md
// N5, N7, N8). An average is divided once, at the last addition.
//
//   ring                2(n-1)/n of the bytes each way, 2(n-1) hops (tiny tensors: n-1)
//   halving-doubling    2(n-1)/n of the bytes each way, 2 log2 n hops (tiny ones: log2 n)
//
// Every rank of the group calls the same function with the same arguments in the same order. Both
// neighbours' calls are compared before data is stored. After an error the group is aborted here:
// its streams close, which the neighbours notice at once, and output tensors hold an unknown part
// of the result.
//
// Tensors are the caller's, contiguous, at any alignment; `in` equal to `out` is allowed wherever
// both exist, and otherwise they do not overlap but as stated. Results: kInvalidArgument (type and
// reduction do not go together, bad root), kMismatch, kTimeout, kUnavailable and kDenied, each
// naming the peer; kAborted with the reason if Mesh::abort ended it.
#pragma once

#include <cstdint>
#include <vector>

#include "base/element.h"
#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "mesh/mesh.h"

namespace sumcast::mesh {

/// One operation of a group, as one of its ranks calls it.
struct MeshCall {
  GroupId group;
  std::vector<Rank> ranks;  ///< The members, by place in the group.
  uint32_t me = 0;          ///< This rank's place: ranks[me] == Mesh::me().
  uint32_t sequence = 0;    ///< Counts the group's operations; equal on all ranks.
  uint32_t digest = 0;      ///< Of what is called; compared with the neighbours'.
  Instant deadline = Instant::never();
  uint8_t lane = 0;  ///< Operations of one group may run at once in different lanes.
};

/// out[i] = reduction over ranks of in[i].
Result<void> ring_all_reduce(Mesh& mesh, const MeshCall& call, const void* in, void* out,
                             uint64_t count, ElementType type, Reduction reduction);

/// The same by recursive vector halving and distance doubling. Where the number of ranks is no
/// power of two, the surplus ranks first give their values to a neighbour and get the result last.
Result<void> halving_doubling_all_reduce(Mesh& mesh, const MeshCall& call, const void* in,
                                         void* out, uint64_t count, ElementType type,
                                         Reduction reduction);

/// out[i] = reduction over ranks of in[me * count + i]. `in` holds n * count elements and is not
/// changed, except that `out` may be in + me * count.
Result<void> ring_reduce_scatter(Mesh& mesh, const MeshCall& call, const void* in, void* out,
                                 uint64_t count, ElementType type, Reduction reduction);

/// out[r * count + i] = in[i] of rank r. `in` may be out + me * count.
Result<void> ring_all_gather(Mesh& mesh, const MeshCall& call, const void* in, void* out,
                             uint64_t count, ElementType type);

/// `data` of the root arrives in `data` of all: down a binomial tree if small, along a chain in
/// which every rank passes on while it receives if large.
Result<void> broadcast(Mesh& mesh, const MeshCall& call, void* data, uint64_t count,
                       ElementType type, uint32_t root);

/// The reduction arrives in the root's `out`; elsewhere `out` is not touched and may be null. Tree
/// or chain, as broadcast.
Result<void> reduce(Mesh& mesh, const MeshCall& call, const void* in, void* out, uint64_t count,
                    ElementType type, Reduction reduction, uint32_t root);

/// Returns once all ranks have called it. Dissemination: ceil(log2 n) rounds.
Result<void> barrier(Mesh& mesh, const MeshCall& call);

}  // namespace sumcast::mesh

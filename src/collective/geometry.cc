#include "collective/geometry.h"

#include <algorithm>

#include "base/assert.h"

namespace sumcast::collective {
namespace {

uint64_t ceil_divide(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

}  // namespace

Geometry::Geometry(const wire::OperationDescriptor& operation, uint32_t group_size,
                   uint32_t my_rank, uint32_t lanes_max, uint32_t shards, bool owned)
    : kind_(operation.kind),
      count_(operation.count),
      size_(group_size),
      me_(my_rank),
      root_(operation.root),
      lanes_max_(lanes_max),
      shards_(shards),
      first_((operation.sequence + operation.group.value) % shards),
      chunks_per_part_(ceil_divide(operation.count, lanes_max)) {
  SUMCAST_ASSERT(lanes_max >= 1 && shards >= 1 && my_rank < group_size);
  using wire::OperationKind;
  const bool sums_whole = kind_ == OperationKind::kAllReduce ||
                          kind_ == OperationKind::kBlockCodes || wire::sums_rows(kind_);
  rendezvous_ = !sums_whole || count_ == 0;
  partitioned_ = kind_ == OperationKind::kAllGather || kind_ == OperationKind::kReduceScatter;
  owned_ = owned && !sums_whole;
  if (kind_ == OperationKind::kBarrier) chunks_per_part_ = 0;
}

/// Data chunks of this shard, the rendezvous not counted.
uint64_t Geometry::data_total(uint32_t shard) const {
  if (owned_) {
    if (partitioned_) return chunks_per_part_;
    return shard == root_ ? chunks_per_part_ : 0;
  }
  const uint64_t chunks = partitioned_ ? chunks_per_part_ * size_ : chunks_per_part_;
  const uint64_t residue = (shard + shards_ - first_) % shards_;
  return chunks > residue ? ceil_divide(chunks - residue, shards_) : 0;
}

uint32_t Geometry::total(uint32_t shard) const {
  const uint64_t chunks = data_total(shard) + (rendezvous_ && shard == first_ ? 1 : 0);
  SUMCAST_ASSERT(chunks <= UINT32_MAX);
  return static_cast<uint32_t>(chunks);
}

/// Global index of the shard's data chunk `index`. Partitioned operations number their chunks
/// across the parts (chunk k of every part before chunk k+1 of any), so that all links are busy at
/// once.
uint64_t Geometry::data_chunk(uint32_t shard, uint64_t index) const {
  if (owned_) return partitioned_ ? index * size_ + shard : index;
  return index * shards_ + (shard + shards_ - first_) % shards_;
}

ChunkPlace Geometry::data_place(uint64_t chunk) const {
  using wire::OperationKind;
  const uint64_t part = partitioned_ ? chunk % size_ : 0;
  const uint64_t within = (partitioned_ ? chunk / size_ : chunk) * lanes_max_;
  ChunkPlace place;
  place.lanes = static_cast<uint32_t>(std::min<uint64_t>(lanes_max_, count_ - within));
  place.input_offset = place.output_offset = within;
  place.contributes = place.receives = true;
  switch (kind_) {
    case OperationKind::kReduce:
    case OperationKind::kRowReduce:
      place.receives = me_ == root_;
      break;
    case OperationKind::kBroadcast:
      place.contributes = me_ == root_;
      place.receives = me_ != root_;
      break;
    case OperationKind::kAllGather:
      place.contributes = me_ == part;
      place.receives = me_ != part;
      place.output_offset = part * count_ + within;
      break;
    case OperationKind::kReduceScatter:
      place.receives = me_ == part;
      place.input_offset = part * count_ + within;
      break;
    default:
      break;
  }
  return place;
}

ChunkPlace Geometry::place(uint32_t shard, uint32_t local) const {
  if (rendezvous_ && shard == first_) {
    if (local == 0) return ChunkPlace{};
    return data_place(data_chunk(shard, local - 1));
  }
  return data_place(data_chunk(shard, local));
}

}  // namespace sumcast::collective

#include "wire/descriptor.h"

namespace sumcast::wire {
namespace {

uint64_t mix(uint64_t hash, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) {
    hash ^= (value >> (8 * i)) & 0xFF;
    hash *= 0x100000001B3u;
  }
  return hash;
}

}  // namespace

const char* name_of(OperationKind kind) {
  switch (kind) {
    case OperationKind::kAllReduce:
      return "all_reduce";
    case OperationKind::kReduce:
      return "reduce";
    case OperationKind::kBroadcast:
      return "broadcast";
    case OperationKind::kAllGather:
      return "all_gather";
    case OperationKind::kReduceScatter:
      return "reduce_scatter";
    case OperationKind::kBarrier:
      return "barrier";
    case OperationKind::kBlockCodes:
      return "block_codes";
    case OperationKind::kRowSum:
      return "row_sum";
    case OperationKind::kRowReduce:
      return "row_reduce";
  }
  return "?";
}

uint64_t fingerprint_of(const OperationDescriptor& d) {
  uint64_t hash = 0xCBF29CE484222325u;
  hash = mix(hash, d.group.value, 2);
  hash = mix(hash, d.sequence, 4);
  hash = mix(hash, static_cast<uint64_t>(d.kind), 1);
  hash = mix(hash, static_cast<uint64_t>(d.type), 1);
  hash = mix(hash, static_cast<uint64_t>(d.reduction), 1);
  hash = mix(hash, static_cast<uint64_t>(d.format), 1);
  hash = mix(hash, d.root, 2);
  hash = mix(hash, d.count, 8);
  if (d.part_of != 0) hash = mix(hash, d.part_of, 8);
  if (d.width != 0) hash = mix(hash, d.width, 2);
  // FNV's low bits are its weakest: finish with an avalanche before folding.
  hash ^= hash >> 33;
  hash *= 0xFF51AFD7ED558CCDu;
  hash ^= hash >> 33;
  return hash;
}

uint32_t digest_of(const OperationDescriptor& d) {
  const uint64_t hash = fingerprint_of(d);
  const uint64_t folded = (hash ^ (hash >> 24) ^ (hash >> 48)) & 0xFFFFFFu;
  return static_cast<uint32_t>((folded == 0 ? 1 : folded) << 8) | (d.sequence & 0xFFu);
}

std::string describe(const OperationDescriptor& d) {
  std::string text = name_of(d.kind);
  if (d.kind == OperationKind::kBarrier) return text;
  text += " ";
  text += sumcast::name_of(d.type);
  text += "[" + std::to_string(d.count) + "]";
  if (d.width != 0) text += "[" + std::to_string(d.width) + "]";
  if (d.kind == OperationKind::kBroadcast) return text + " from rank " + std::to_string(d.root);
  if (d.kind == OperationKind::kAllGather) return text;
  text += " ";
  text += sumcast::name_of(d.reduction);
  if (d.kind == OperationKind::kReduce || d.kind == OperationKind::kRowReduce)
    text += " to rank " + std::to_string(d.root);
  if (d.format != WireFormat::kNative) {
    text += " over ";
    text += sumcast::name_of(d.format);
  }
  return text;
}

}  // namespace sumcast::wire

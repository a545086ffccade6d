// What must come out where several ranks share a host: docs/numerics.md, the tree of N1.
#include <cstring>

#include "cli/bench_data.h"
#include "numeric/codec.h"
#include "numeric/fold.h"

namespace sumcast::cli {
namespace {

WireFormat sixteen_bits(ElementType type) {
  return type == ElementType::kF16 ? WireFormat::kFP16 : WireFormat::kBF16;
}

}  // namespace

void BenchData::fill_host(uint32_t host, uint64_t first, uint64_t count, ElementType carried,
                          bool divided, std::byte* out) const {
  if (ranks_per_host_ == 1 && carried == bench_.type) return fill(host, first, count, out);
  const size_t bytes = count * element_bytes(carried);
  std::vector<std::byte> inputs(bytes * ranks_per_host_), narrow(bytes);
  std::vector<const std::byte*> sources;
  for (uint32_t seat = 0; seat < ranks_per_host_; ++seat) {
    const uint32_t rank = host * ranks_per_host_ + seat;
    std::byte* const place = inputs.data() + seat * bytes;
    sources.push_back(place);
    if (carried == bench_.type) {
      fill(rank, first, count, place);
      continue;
    }
    fill(rank, first, count, narrow.data());
    numeric::decode(sixteen_bits(bench_.type), narrow.data(), count,
                    reinterpret_cast<float*>(place));
  }
  const bool is_sum =
      bench_.reduction == Reduction::kAvg && !divided && bench_.type != ElementType::kBool;
  numeric::fold(carried, is_sum ? Reduction::kSum : bench_.reduction, sources.data(),
                sources.size(), count, world_, out);
}

void BenchData::reduce_tree(uint64_t first, uint64_t count, std::byte* out) const {
  const bool half = bench_.type == ElementType::kF16 || bench_.type == ElementType::kBF16;
  const bool rounds = bench_.reduction == Reduction::kSum || bench_.reduction == Reduction::kAvg ||
                      bench_.reduction == Reduction::kProduct;
  const ElementType carried = half && rounds ? ElementType::kF32 : bench_.type;
  const size_t bytes = count * element_bytes(carried);
  std::vector<std::byte> partial(bytes * hosts()), total(bytes);
  std::vector<const std::byte*> sources;
  for (uint32_t host = 0; host < hosts(); ++host) {
    std::byte* const place = partial.data() + host * bytes;
    fill_host(host, first, count, carried, false, place);
    sources.push_back(place);
  }
  // The fold of the hosts divides by the number of ranks, once, at the end (N4).
  numeric::fold(carried, bench_.reduction, sources.data(), sources.size(), count, world_,
                total.data());
  if (carried == bench_.type) {
    std::memcpy(out, total.data(), bytes);
  } else {
    numeric::encode(sixteen_bits(bench_.type), reinterpret_cast<const float*>(total.data()), count,
                    out);
  }
}

}  // namespace sumcast::cli

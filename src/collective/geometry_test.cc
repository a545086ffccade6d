#include "collective/geometry.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace sumcast::collective {
namespace {

using wire::OperationKind;

wire::OperationDescriptor operation(OperationKind kind, uint64_t count, uint32_t sequence) {
  wire::OperationDescriptor d;
  d.kind = kind;
  d.count = count;
  d.sequence = sequence;
  return d;
}

/// Every element is contributed and received by exactly those who should, once, and all ranks agree
/// on lanes; for every kind, size, shard count and ownership.
TEST(Geometry, CoversEveryElementOnceForEveryKind) {
  const OperationKind kinds[] = {OperationKind::kAllReduce,     OperationKind::kReduce,
                                 OperationKind::kBroadcast,     OperationKind::kAllGather,
                                 OperationKind::kReduceScatter, OperationKind::kBarrier};
  for (const OperationKind kind : kinds) {
    for (const uint32_t size : {1u, 2u, 3u, 5u}) {
      for (const bool owned : {false, true}) {
        for (const uint32_t shards :
             owned ? std::vector<uint32_t>{size} : std::vector<uint32_t>{1, 2, 3}) {
          for (const uint64_t count : {0u, 1u, 6u, 7u, 8u, 50u}) {
            for (const uint32_t sequence : {1u, 2u, 9u}) {
              auto d = operation(kind, count, sequence);
              d.root = static_cast<uint16_t>(size - 1);
              const uint64_t parts =
                  kind == OperationKind::kAllGather || kind == OperationKind::kReduceScatter ? size
                                                                                             : 1;
              std::map<std::pair<uint32_t, uint32_t>, uint32_t> lanes;  // (shard, local) -> lanes.
              for (uint32_t me = 0; me < size; ++me) {
                const Geometry g(d, size, me, 7, shards, owned);
                std::vector<int> in(count * parts), out(count * parts);
                for (uint32_t shard = 0; shard < shards; ++shard) {
                  for (uint32_t i = 0; i < g.total(shard); ++i) {
                    const ChunkPlace p = g.place(shard, i);
                    const auto [it, fresh] = lanes.try_emplace({shard, i}, p.lanes);
                    ASSERT_EQ(it->second, p.lanes) << "ranks agree";
                    for (uint32_t e = 0; e < p.lanes; ++e) {
                      if (p.contributes) ++in.at(p.input_offset + e);
                      if (p.receives) ++out.at(p.output_offset + e);
                    }
                  }
                }
                if (kind == OperationKind::kBarrier) continue;
                for (uint64_t e = 0; e < count * parts; ++e) {
                  const bool mine = e / std::max<uint64_t>(count, 1) == me;
                  int want_in = 1, want_out = 1;
                  if (kind == OperationKind::kReduce) want_out = me == d.root;
                  if (kind == OperationKind::kBroadcast)
                    want_in = me == d.root, want_out = me != d.root;
                  if (kind == OperationKind::kAllGather) {
                    want_in = me == 0 || me > 0 ? e < count : 0;
                    want_out = !mine;
                  }
                  if (kind == OperationKind::kReduceScatter) want_out = e < count;
                  ASSERT_EQ(in[e], want_in) << wire::name_of(kind) << " element " << e;
                  ASSERT_EQ(out[e], want_out) << wire::name_of(kind) << " element " << e;
                }
              }
              uint64_t all = 0;
              for (const auto& [key, n] : lanes) all += n;
              if (kind != OperationKind::kBarrier) {
                EXPECT_EQ(all, count * parts);
              }
            }
          }
        }
      }
    }
  }
}

TEST(Geometry, TheFirstOwnerDoesNotDependOnKindOrCount) {
  for (uint32_t sequence = 0; sequence < 10; ++sequence) {
    const Geometry a(operation(OperationKind::kAllReduce, 1000, sequence), 4, 0, 10, 4, true);
    const Geometry b(operation(OperationKind::kBroadcast, 1, sequence), 4, 1, 10, 4, true);
    EXPECT_EQ(a.first_shard(), b.first_shard());
    EXPECT_GE(a.total(a.first_shard()), 1u);
    EXPECT_GE(b.total(b.first_shard()), 1u);
  }
}

TEST(Geometry, AnEmptyOperationStillMeets) {
  const Geometry g(operation(OperationKind::kAllReduce, 0, 5), 3, 0, 10, 3, true);
  EXPECT_EQ(g.total(g.first_shard()), 1u);
  EXPECT_EQ(g.place(g.first_shard(), 0).lanes, 0u);
}

TEST(Geometry, DirectSendsOneSourceChunksToTheirOwnersShard) {
  const Geometry g(operation(OperationKind::kAllGather, 30, 1), 3, 0, 10, 3, true);
  for (uint32_t shard = 0; shard < 3; ++shard) {
    const uint32_t begin = shard == g.first_shard() ? 1 : 0;
    ASSERT_EQ(g.total(shard), 3u + begin);
    EXPECT_EQ(g.place(shard, begin).output_offset, shard * 30u);
  }
}

}  // namespace
}  // namespace sumcast::collective

// The names under which a shard's counters appear, in Prometheus' text and in JSON: one table, so
// that they cannot drift apart.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "collective/shard_host.h"
#include "runtime/counters.h"

namespace sumcast::daemon {

/// Rows by id: first the verdicts, in the order of ShardCount, then the works, as in ShardWork.
/// The verdicts after the first add up to it.
std::span<const runtime::CounterInfo> shard_counter_table();

/// The key in JSON of the row with that id: "received", "bytes_folded".
std::string_view shard_counter_key(size_t id);

/// Values by id.
std::vector<uint64_t> shard_counter_values(const collective::ShardCounters& counters);

}  // namespace sumcast::daemon

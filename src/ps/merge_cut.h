// Cuts a mergeable push: hot keys to the aggregators that sum them, the others to their server.
//
// Each worker process is an aggregator for the keys whose hash names it, like the shards of
// `direct` (design.md 3), so no link carries more than its share. Pure.
#pragma once

#include <map>
#include <vector>

#include "ps/heat.h"
#include "ps/internal/message.h"
#include "ps/merge_shard.h"

namespace sumcast::ps {

struct CutPush {
  ::ps::Message straight;              ///< To the server; without data if nothing is left for it.
  std::map<int, ::ps::Message> parts;  ///< By aggregator. Empty: the message is to go as it is.
};

/// @param message  with the shape `shape`; its arrays are copied from.
/// @param aggregators  by hash of the key: node ids; below 0 where there is none.
CutPush cut_push(const ::ps::Message& message, const RowShape& shape, Heat& heat,
                 const std::vector<int>& aggregators);

}  // namespace sumcast::ps

// Chakra execution traces (MLCommons), schema version 0.0.4: protocol buffers, each preceded by its
// length as a varint; one GlobalMetadata, then one Node after the other.
//
// Of a node we read and write id, name, type, dependencies, start, duration, and the attributes
// comm_type and comm_size of collectives; other fields are skipped. The protobuf library's stream
// level does the bytes; field numbers are in chakra.cc. A trace comes from outside: what does not
// parse is one clear line.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "plan/timeline.h"
#include "plan/trace.h"

namespace sumcast::plan {

/// The timeline's step. Computing gets compute nodes, each sum a collective node of its bytes.
std::string to_chakra(const Timeline& timeline);

/// The whole trace as one step: computing is the sum of compute nodes, `bytes` of all-reduces.
/// kInvalidArgument if `bytes` are no such trace, or record no all-reduce with a size.
Result<TraceSummary> read_chakra(std::string_view bytes);

}  // namespace sumcast::plan

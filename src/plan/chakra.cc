#include "plan/chakra.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>

namespace sumcast::plan {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;
using google::protobuf::io::StringOutputStream;

/// Field numbers of the schema's messages.
namespace metadata {
constexpr int kVersion = 1;
}
namespace node {
constexpr int kId = 1, kName = 2, kType = 3, kControlDeps = 4, kDataDeps = 5;
constexpr int kStartMicros = 6, kDurationMicros = 7, kAttribute = 10;
}  // namespace node
namespace attribute {
constexpr int kName = 1, kInt32 = 7, kInt64 = 9, kUint32 = 11, kUint64 = 13, kSint32 = 15;
constexpr int kSint64 = 17, kBool = 27;
}  // namespace attribute
constexpr uint64_t kComputeNode = 4, kCollectiveNode = 7;
constexpr uint64_t kAllReduce = 0;
constexpr const char* kVersionText = "0.0.4";

/// No trace has more: bytes of a sum (a petabyte), microseconds of a node (thirty years).
constexpr double kValueMax = 1e15;
/// A start may be a time of day, counted from 1970: whatever a double holds exactly.
constexpr double kStartMax = 9e15;

/// A message under construction.
class Message {
 public:
  Message() : stream_(&bytes_), out_(std::make_unique<CodedOutputStream>(&stream_)) {}
  void number(int field, uint64_t value) { WireFormatLite::WriteUInt64(field, value, out_.get()); }
  void boolean(int field, bool value) { WireFormatLite::WriteBool(field, value, out_.get()); }
  void text(int field, const std::string& value) {
    WireFormatLite::WriteString(field, value, out_.get());
  }
  std::string finish() && {
    out_.reset();  // What it buffers goes to bytes_.
    return std::move(bytes_);
  }

 private:
  std::string bytes_;
  StringOutputStream stream_;
  std::unique_ptr<CodedOutputStream> out_;
};

void append(std::string& to, const std::string& message) {
  StringOutputStream stream(&to);
  CodedOutputStream out(&stream);
  out.WriteVarint32(static_cast<uint32_t>(message.size()));
  out.WriteString(message);
}

uint64_t micros(double seconds) { return static_cast<uint64_t>(std::llround(seconds * 1e6)); }

std::string number_attribute(const char* name, uint64_t value) {
  Message message;
  message.text(attribute::kName, name);
  message.number(attribute::kUint64, value);
  return std::move(message).finish();
}

std::string cpu_attribute(bool on_cpu) {
  Message message;
  message.text(attribute::kName, "is_cpu_op");
  message.boolean(attribute::kBool, on_cpu);
  return std::move(message).finish();
}

/// What was read of one node.
struct NodeRead {
  uint64_t id = 0;
  uint64_t type = 0;
  double start_us = 0, duration_us = 0;
  uint64_t comm_type = std::numeric_limits<uint64_t>::max();
  std::optional<double> comm_bytes;
  std::string problem;  ///< What it says that cannot be.
};

/// What an integer field of an attribute says.
double integer_of(int field, uint64_t number) {
  if (field == attribute::kUint32 || field == attribute::kUint64) {
    return static_cast<double>(number);
  }
  if (field == attribute::kSint32 || field == attribute::kSint64) {
    return static_cast<double>(WireFormatLite::ZigZagDecode64(number));
  }
  return static_cast<double>(static_cast<int64_t>(number));
}

bool is_integer(int field) {
  using namespace attribute;
  return field == kInt32 || field == kInt64 || field == kUint32 || field == kUint64 ||
         field == kSint32 || field == kSint64;
}

void take_attribute(const std::string& name, std::optional<double> value, NodeRead& into) {
  if (name != "comm_type" && name != "comm_size") return;
  if (!value) {
    into.problem = fmt::format("{} is not an integer", name);
  } else if (!(*value >= 0 && *value <= kValueMax)) {
    into.problem = fmt::format("{} is {:.0f}, not 0 to {:g}", name, *value, kValueMax);
  } else if (name == "comm_type") {
    into.comm_type = static_cast<uint64_t>(*value);
  } else {
    into.comm_bytes = value;
  }
}

bool read_text(CodedInputStream& in, std::string& text) {
  uint32_t size = 0;
  return in.ReadVarint32(&size) && size <= static_cast<uint32_t>(INT32_MAX) &&
         in.ReadString(&text, static_cast<int>(size));
}

bool read_attribute(std::string_view bytes, NodeRead& into) {
  CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()),
                      static_cast<int>(bytes.size()));
  std::string name;
  std::optional<double> value;
  while (const uint32_t tag = in.ReadTag()) {
    const int field = WireFormatLite::GetTagFieldNumber(tag);
    const bool varint = WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_VARINT;
    if (tag ==
        WireFormatLite::MakeTag(attribute::kName, WireFormatLite::WIRETYPE_LENGTH_DELIMITED)) {
      if (!read_text(in, name)) return false;
    } else if (varint && is_integer(field)) {
      uint64_t number = 0;
      if (!in.ReadVarint64(&number)) return false;
      value = integer_of(field, number);
    } else if (!WireFormatLite::SkipField(&in, tag)) {
      return false;
    }
  }
  if (!in.ConsumedEntireMessage()) return false;
  take_attribute(name, value, into);
  return true;
}

bool read_node(std::string_view bytes, NodeRead& into) {
  CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()),
                      static_cast<int>(bytes.size()));
  std::string attribute;
  while (const uint32_t tag = in.ReadTag()) {
    const int field = WireFormatLite::GetTagFieldNumber(tag);
    const auto type = WireFormatLite::GetTagWireType(tag);
    uint64_t number = 0;
    if (type == WireFormatLite::WIRETYPE_VARINT &&
        (field == node::kId || field == node::kType || field == node::kStartMicros ||
         field == node::kDurationMicros)) {
      if (!in.ReadVarint64(&number)) return false;
      if (field == node::kId) into.id = number;
      if (field == node::kType) into.type = number;
      if (field == node::kStartMicros) into.start_us = static_cast<double>(number);
      if (field == node::kDurationMicros) into.duration_us = static_cast<double>(number);
    } else if (type == WireFormatLite::WIRETYPE_LENGTH_DELIMITED && field == node::kAttribute) {
      if (!read_text(in, attribute) || !read_attribute(attribute, into)) return false;
    } else if (!WireFormatLite::SkipField(&in, tag)) {
      return false;
    }
  }
  if (into.start_us > kStartMax) into.problem = "its start is beyond what can be";
  if (into.duration_us > kValueMax) into.problem = "it takes thirty years";
  return in.ConsumedEntireMessage();
}

Error bad(size_t message) {
  return {ErrorCode::kInvalidArgument,
          fmt::format("not a Chakra execution trace: message {} does not parse", message)};
}

}  // namespace

std::string to_chakra(const Timeline& timeline) {
  std::string bytes;
  Message global;
  global.text(metadata::kVersion, kVersionText);
  append(bytes, std::move(global).finish());
  for (size_t i = 0; i < timeline.events.size(); ++i) {
    const TimelineEvent& event = timeline.events[i];
    Message message;
    message.number(node::kId, i);
    message.text(node::kName, event.name);
    message.number(node::kType, event.sum ? kCollectiveNode : kComputeNode);
    for (const size_t before : event.after) message.number(node::kDataDeps, before);
    message.number(node::kStartMicros, micros(event.start_s));
    message.number(node::kDurationMicros, micros(event.duration_s));
    message.text(node::kAttribute, cpu_attribute(!event.sum));
    if (event.sum) {
      message.text(node::kAttribute, number_attribute("comm_type", kAllReduce));
      message.text(node::kAttribute,
                   number_attribute("comm_size", static_cast<uint64_t>(event.bytes)));
    }
    append(bytes, std::move(message).finish());
  }
  return bytes;
}

Result<TraceSummary> read_chakra(std::string_view bytes) {
  if (bytes.size() > static_cast<size_t>(INT32_MAX)) {
    return fail(ErrorCode::kInvalidArgument, "a Chakra trace of more than 2 GiB is not read");
  }
  CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()),
                      static_cast<int>(bytes.size()));
  TraceSummary summary;
  summary.steps = 1;
  double first_us = std::numeric_limits<double>::max(), last_us = 0;
  std::string message;
  for (size_t number = 0; in.CurrentPosition() < static_cast<int>(bytes.size()); ++number) {
    NodeRead read;
    if (!read_text(in, message)) return fail(bad(number));
    if (number == 0) continue;  // GlobalMetadata says nothing that counts here.
    if (!read_node(message, read)) return fail(bad(number));
    if (!read.problem.empty()) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("Chakra execution trace: node {}: {}", read.id, read.problem));
    }
    first_us = std::min(first_us, read.start_us);
    last_us = std::max(last_us, read.start_us + read.duration_us);
    if (read.type == kComputeNode) summary.compute_s += read.duration_us * 1e-6;
    // A field that is zero may be left out: an all-reduce without a type is none of the others.
    const bool reduces =
        read.comm_type == kAllReduce || read.comm_type == std::numeric_limits<uint64_t>::max();
    if (read.type != kCollectiveNode || !reduces || !read.comm_bytes) continue;
    ++summary.operations;
    summary.bytes += *read.comm_bytes;
    summary.communication_s += read.duration_us * 1e-6;
  }
  if (summary.operations == 0) {
    return fail(ErrorCode::kInvalidArgument,
                "the trace is not a Chakra execution trace with an all-reduce in it (nodes of type "
                "COMM_COLL_NODE with comm_size)");
  }
  summary.step_s = std::max(0.0, last_us - first_us) * 1e-6;
  return summary;
}

}  // namespace sumcast::plan

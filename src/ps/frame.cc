#include "ps/frame.h"

#include <fmt/format.h>

#include <cstring>

#include "base/assert.h"

namespace sumcast::ps {
namespace {

constexpr uint64_t kLengthBits = 56;
constexpr uint64_t kLengthMask = (uint64_t{1} << kLengthBits) - 1;
constexpr uint64_t kLent = uint64_t{1} << 63;

uint64_t word_at(const FrameBytes& frame, size_t index) {
  uint64_t word;
  std::memcpy(&word, frame.get() + kHeaderBytes + 8 * index, sizeof word);
  return word;
}

auto contradiction(const char* what) {
  return fail(ErrorCode::kDenied, fmt::format("a frame contradicts itself: {}", what));
}

}  // namespace

size_t element_bytes(::ps::DataType type) {
  switch (type) {
    case ::ps::INT16:
    case ::ps::UINT16:
      return 2;
    case ::ps::INT32:
    case ::ps::UINT32:
    case ::ps::FLOAT:
      return 4;
    case ::ps::INT64:
    case ::ps::UINT64:
    case ::ps::DOUBLE:
      return 8;
    default:
      return 1;
  }
}

FrameHeader header_of(const ::ps::Message& message) {
  SUMCAST_ASSERT(message.data.size() <= kArraysMax);
  const ::ps::Meta& meta = message.meta;
  FrameHeader header;
  header.flags = static_cast<uint8_t>(
      (meta.request ? FrameHeader::kRequest : 0) | (meta.push ? FrameHeader::kPush : 0) |
      (meta.pull ? FrameHeader::kPull : 0) | (meta.simple_app ? FrameHeader::kSimple : 0));
  header.arrays = static_cast<uint16_t>(message.data.size());
  header.body_bytes = static_cast<uint32_t>(meta.body.size());
  header.head = meta.head;
  header.app_id = meta.app_id;
  header.customer_id = meta.customer_id;
  header.timestamp = meta.timestamp;
  header.sender = meta.sender;
  header.priority = meta.priority;
  header.payload_bytes = 8 * message.data.size() + padded(meta.body.size());
  for (const auto& array : message.data) header.payload_bytes += padded(array.size());
  return header;
}

uint64_t table_word(::ps::DataType type, uint64_t bytes, bool lent) {
  return static_cast<uint64_t>(type) << kLengthBits | bytes | (lent ? kLent : 0);
}

Result<FrameHeader> read_header(const char* bytes) {
  FrameHeader header;
  std::memcpy(&header, bytes, sizeof header);
  const auto kind = static_cast<uint8_t>(header.kind);
  if (kind < 1 || kind > kFrameKindMax) return contradiction("unknown kind");
  if (header.payload_bytes > kPayloadBytesMax) return contradiction("too long");
  if (header.payload_bytes % 8 != 0) return contradiction("not padded");
  if (header.arrays > kArraysMax) return contradiction("too many arrays");
  if (8 * uint64_t{header.arrays} + padded(header.body_bytes) > header.payload_bytes) {
    return contradiction("shorter than its table and text");
  }
  return header;
}

std::optional<size_t> array_bytes(const char* frame, size_t index) {
  uint64_t word;
  std::memcpy(&word, frame + kHeaderBytes + 8 * index, sizeof word);
  if ((word & kLent) != 0) return std::nullopt;
  return static_cast<size_t>(word & kLengthMask);
}

Result<::ps::Message> read_message(const FrameHeader& header, const FrameBytes& frame,
                                   std::vector<size_t>& lent, const ::ps::SArray<char>* values) {
  constexpr size_t kValues = 1;
  ::ps::Message message;
  ::ps::Meta& meta = message.meta;
  uint64_t at = 8 * uint64_t{header.arrays} + padded(header.body_bytes), elsewhere = 0;
  message.data.reserve(header.arrays);
  meta.data_type.reserve(header.arrays);
  for (size_t i = 0; i < header.arrays; ++i) {
    const uint64_t word = word_at(frame, i);
    const uint64_t bytes = word & kLengthMask;
    const bool is_lent = (word & kLent) != 0;
    const uint64_t code = (word & ~kLent) >> kLengthBits;
    if (code > uint64_t{::ps::OTHER}) return contradiction("unknown element type");
    const auto type = static_cast<::ps::DataType>(code);
    if (is_lent ? bytes != sizeof(Loan) : bytes % element_bytes(type) != 0) {
      return contradiction("a part of an element");
    }
    if (is_lent) lent.push_back(i);
    if (padded(bytes) > header.payload_bytes - at) return contradiction("an array beyond its end");
    ::ps::SArray<char> array;
    if (values != nullptr && i == kValues) {
      array = *values;
      elsewhere = bytes;
    } else {
      char* const begin = frame.get() + kHeaderBytes + at - elsewhere;
      array = ::ps::SArray<char>(begin, static_cast<size_t>(bytes));
      array.ptr() = std::shared_ptr<char>(frame, begin);
    }
    message.data.push_back(std::move(array));
    meta.data_type.push_back(type);
    meta.data_size += bytes;
    at += padded(bytes);
  }
  if (at != header.payload_bytes) return contradiction("longer than its parts");
  meta.body.assign(frame.get() + kHeaderBytes + 8 * size_t{header.arrays}, header.body_bytes);
  meta.head = header.head;
  meta.app_id = header.app_id;
  meta.customer_id = header.customer_id;
  meta.timestamp = header.timestamp;
  meta.sender = header.sender;
  meta.priority = header.priority;
  meta.request = (header.flags & FrameHeader::kRequest) != 0;
  meta.push = (header.flags & FrameHeader::kPush) != 0;
  meta.pull = (header.flags & FrameHeader::kPull) != 0;
  meta.simple_app = (header.flags & FrameHeader::kSimple) != 0;
  return message;
}

Result<std::string_view> read_text(const FrameHeader& header, const FrameBytes& frame) {
  if (header.arrays != 0 || padded(header.body_bytes) != header.payload_bytes) {
    return contradiction("a control frame with data");
  }
  return std::string_view(frame.get() + kHeaderBytes, header.body_bytes);
}

}  // namespace sumcast::ps

// What travels on a connection between two nodes: frames of a header and a payload.
//
//   header     48 bytes, FrameHeader
//   table      a word for each array: its type in the top byte, its bytes below
//   body       text, padded to 8 bytes
//   arrays     each padded to 8 bytes, so that they are aligned where the frame lies in memory
//   seal       16 bytes, only where connections are sealed (auth/control_seal.h)
//
// Numbers are little endian, as hosts are throughout (docs/numerics.md). Lengths have 56 or 64
// bits: there is no 2 GB limit. A frame that was received is checked whole before anything of it is
// used; it does not know connections.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/result.h"
#include "ps/internal/message.h"
#include "ps/loan.h"

namespace sumcast::ps {

enum class FrameKind : uint8_t {
  kData = 1,     ///< A message between customers.
  kControl = 2,  ///< The library's own, JSON in the body (control.h).
  kAck = 3,      ///< `sequence` is the first one not received (resend.h). Never acknowledged.
  kReturn = 4,   ///< The loan `sequence` was read (loan.h).
  // With replicas (hub_replica.cc):
  kLog = 5,      ///< A push of the worker `sender`, which the server that sends this handles.
  kLogged = 6,   ///< The backup has handled so many of them; the count is the body, 8 bytes.
  kStandIn = 7,  ///< A request, or its response, that concerns the keys of server `sender`.
  kSettled = 8,  ///< RequestIds of pushes to server `sender` whose responses the worker has.
  // Mergeable pushes (hub_merge.cc):
  kPart = 9,        ///< To an aggregator: rows of hot keys of server `sender`.
  kHarvest = 10,    ///< To a server: sums; the timestamp numbers them, the body is PartNames.
  kCommitted = 11,  ///< From a server: harvest `timestamp` is applied. From an aggregator: these
                    ///< RequestIds to server `sender` are; head and priority are the rows that
                    ///< went into the sum and came out.
  kReplay = 12,     ///< To a server: a part that was with the aggregator `sender`, now dead.
  kForget = 13,     ///< To a server: RequestIds by aggregator `sender`, known to be committed.
};

struct FrameHeader {
  uint64_t payload_bytes = 0;  ///< Of all that follows, without the seal; a multiple of 8.
  uint64_t sequence = 0;       ///< From 1, where frames are resent; else 0.
  FrameKind kind = FrameKind::kData;
  uint8_t flags = 0;    ///< kRequest and its kin.
  uint16_t arrays = 0;  ///< Words of the table; at most kArraysMax.
  uint32_t body_bytes = 0;
  int32_t head = 0, app_id = 0, customer_id = 0, timestamp = 0, sender = 0, priority = 0;

  static constexpr uint8_t kRequest = 1, kPush = 2, kPull = 4, kSimple = 8;
};
static_assert(sizeof(FrameHeader) == 48 && std::is_trivially_copyable_v<FrameHeader> &&
              std::has_unique_object_representations_v<FrameHeader>);

inline constexpr uint8_t kFrameKindMax = 13;

inline constexpr size_t kHeaderBytes = sizeof(FrameHeader);
inline constexpr size_t kArraysMax = 16;
/// More than any memory holds: what announces more is not speaking this protocol.
inline constexpr uint64_t kPayloadBytesMax = uint64_t{1} << 46;

constexpr uint64_t padded(uint64_t bytes) { return (bytes + 7) & ~uint64_t{7}; }

/// The header of a message to be sent; `message.data` has at most kArraysMax arrays (asserted).
FrameHeader header_of(const ::ps::Message& message);
/// The table's word for an array. A lent one has a Loan in the array's place.
uint64_t table_word(::ps::DataType type, uint64_t bytes, bool lent = false);

/// A frame in memory: header and payload in one piece, 8-byte aligned.
using FrameBytes = std::shared_ptr<char>;

/// The header at the begin of some bytes, kHeaderBytes of them. Errors: kDenied, if it cannot be
/// the begin of a frame of ours.
Result<FrameHeader> read_header(const char* bytes);

/// The bytes of array `index`, as a table says that begins behind a header at `frame`; nothing if
/// it is lent.
std::optional<size_t> array_bytes(const char* frame, size_t index);

/// The message of a whole data frame; its arrays share the frame's memory.
/// @param lent    gets the indices of arrays that are loans (loan.h) still.
/// @param values  the second array, if the frame's memory lacks it (large_frame.h); else null.
/// Errors: kDenied, if lengths or types in it contradict each other.
Result<::ps::Message> read_message(const FrameHeader& header, const FrameBytes& frame,
                                   std::vector<size_t>& lent,
                                   const ::ps::SArray<char>* values = nullptr);
/// Bytes of an element of this type; 1 of those unknown.
size_t element_bytes(::ps::DataType type);
/// The text of a whole control frame. Errors as above.
Result<std::string_view> read_text(const FrameHeader& header, const FrameBytes& frame);

}  // namespace sumcast::ps

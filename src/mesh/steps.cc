#include "mesh/steps.h"

#include <fmt/format.h>

#include "base/assert.h"
#include "net/descriptor.h"
#include "numeric/fold.h"

namespace sumcast::mesh {

Steps::Steps(Mesh& mesh, const MeshCall& call, ElementType type, Reduction reduction,
             size_t scratch_bytes)
    : mesh_(mesh),
      call_(call),
      arithmetic_{type, static_cast<uint32_t>(call.ranks.size())},
      reduction_(reduction),
      scratch_(mesh.scratch(kSegmentBytes + scratch_bytes)) {
  SUMCAST_ASSERT(call.me < call.ranks.size());
  SUMCAST_ASSERT(call.ranks[call.me] == mesh.me());
}

Result<std::shared_ptr<Stream>> Steps::stream_to(uint32_t place) {
  return mesh_.stream(call_.group, call_.ranks[place], call_.lane, call_.deadline);
}

Result<void> Steps::transfer(std::optional<uint32_t> to, std::span<const Outgoing> outgoing,
                             std::optional<uint32_t> from, std::span<const Incoming> incoming) {
  std::shared_ptr<Stream> sender, receiver;
  if (to) {
    auto stream = stream_to(*to);
    if (!stream) return fail(stream.error());
    sender = std::move(*stream);
  }
  if (from && from == to) {
    receiver = sender;
  } else if (from) {
    auto stream = stream_to(*from);
    if (!stream) return fail(stream.error());
    receiver = std::move(*stream);
  }
  OperationName name;
  name.sequence = call_.sequence;
  name.digest = call_.digest;
  name.group = call_.group;
  name.rank = mesh_.me();
  return pump(
      {sender.get(), receiver.get(), outgoing, incoming, arithmetic_, name, scratch_.data()},
      call_.deadline);
}

void Steps::fold(std::span<const std::byte* const> sources, size_t bytes, std::byte* out) {
  const size_t lanes = bytes / element_bytes(arithmetic_.type);
  if (lanes == 0) return;
  numeric::fold(arithmetic_.type, reduction_, sources.data(), sources.size(), lanes,
                arithmetic_.group_size, out);
}

Result<void> Steps::finish(Result<void> outcome) {
  if (outcome) return outcome;
  // If somebody else ended the group, a stream that broke or was refused is the consequence and not
  // the news, which comes from the coordinator, a moment later perhaps. All peers of this call see
  // its streams end at once, so they wait beside one another.
  const ErrorCode code = outcome.error().code;
  const Instant now = net::monotonic_now();
  const bool is_consequence = code == ErrorCode::kUnavailable || code == ErrorCode::kAborted;
  const Instant until = is_consequence ? std::min(call_.deadline, now + kSuspicion) : now;
  if (auto reason = mesh_.await_reason(call_.group, until)) return fail(std::move(*reason));
  mesh_.abort(call_.group,
              {ErrorCode::kAborted,
               fmt::format("group {} was aborted: {}", call_.group.value, outcome.error().what)});
  return outcome;
}

Result<void> check_reduction(ElementType type, Reduction reduction) {
  if (reduction != Reduction::kCopy && reduction_applies(type, reduction)) return {};
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("{} of {} does not exist", name_of(reduction), name_of(type)));
}

Result<void> check_root(const MeshCall& call, uint32_t root) {
  if (root < call.ranks.size()) return {};
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("root {} in a group of {}", root, call.ranks.size()));
}

}  // namespace sumcast::mesh

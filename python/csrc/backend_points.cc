// Point to point, and the barrier that says who is missing.
#include <ATen/ATen.h>

#include "backend.h"
#include "mail.h"

namespace sumcast_torch {

using c10d::OpType;

namespace {

const at::Tensor& message_of(const std::vector<at::Tensor>& tensors, const char* operation) {
  TORCH_CHECK(tensors.size() == 1, "sumcast: ", operation, " takes one tensor, not ",
              tensors.size());
  check_tensor(tensors[0], operation);
  return tensors[0];
}

}  // namespace

// Messages are not numbered with the collectives: only two ranks know of them.

c10::intrusive_ptr<c10d::Work> SumcastBackend::send(std::vector<at::Tensor>& tensors, int to,
                                                    int tag) {
  check_usable();
  const at::Tensor& tensor = message_of(tensors, "send");
  check_root(to, "send");
  if (must_stage_message(tensor)) {
    const auto again = [this, to, tag](Twins& in, Twins&) { return send(in, to, tag); };
    return stage(OpType::SEND, "send", tensors, {}, tensors, {}, again);
  }
  const Turn turn(*this);
  Mail mail;
  mail.send(tensor, to, check_of(OpType::SEND, tensor), static_cast<uint32_t>(tag));
  return start_mail(message_parts(OpType::SEND, "send", tensors, to, tag), std::move(mail), {});
}

c10::intrusive_ptr<c10d::Work> SumcastBackend::recv(std::vector<at::Tensor>& tensors, int from,
                                                    int tag) {
  check_usable();
  const at::Tensor& tensor = message_of(tensors, "recv");
  check_root(from, "recv");
  if (must_stage_message(tensor)) {
    const auto again = [this, from, tag](Twins&, Twins& out) { return recv(out, from, tag); };
    return stage(OpType::RECV, "recv", {}, tensors, tensors, {}, again);
  }
  const Turn turn(*this);
  Mail mail;
  mail.receive(tensor, static_cast<uint32_t>(from), check_of(OpType::SEND, tensor),
               static_cast<uint32_t>(tag));
  return start_mail(message_parts(OpType::RECV, "recv", tensors, from, tag), std::move(mail), {});
}

c10::intrusive_ptr<c10d::Work> SumcastBackend::recvAnysource(std::vector<at::Tensor>& tensors,
                                                             int tag) {
  check_usable();
  const at::Tensor& tensor = message_of(tensors, "recv from any");
  if (must_stage_message(tensor)) {
    const auto again = [this, tag](Twins&, Twins& out) { return recvAnysource(out, tag); };
    return stage(OpType::RECVANYSOURCE, "recv from any", {}, tensors, tensors, {}, again);
  }
  const Turn turn(*this);
  Mail mail;
  mail.receive(tensor, SUMCAST_ANY_RANK, check_of(OpType::SEND, tensor),
               static_cast<uint32_t>(tag));
  // The profiler's name for both is the same, as with other backends.
  return start_mail(message_parts(OpType::RECVANYSOURCE, "recvAnySource", tensors, -1, tag),
                    std::move(mail), {});
}

Parts SumcastBackend::message_parts(OpType type, const char* operation,
                                    const std::vector<at::Tensor>& tensors, int peer, int tag) {
  Parts made;
  made.type = type;
  made.operation = operation;
  made.sequence = ++messages_;
  made.bytes = bytes_of(tensors[0]);
  made.name = std::string(operation) + " #" + std::to_string(messages_) +
              (type == OpType::SEND ? " to " : " from ") +
              (peer < 0 ? "any rank" : "rank " + std::to_string(peer)) + " with tag " +
              std::to_string(tag) + place_text();
  made.inputs = tensors;
  made.outputs = tensors;
  return made;
}

namespace {

/// One message of a barrier; empty text: it went well.
std::string pass(sumcast_group* group, bool is_send, uint8_t& byte, uint32_t peer, uint64_t tag,
                 int64_t limit_ms) {
  sumcast_call call{};
  call.size = sizeof call;
  call.timeout_ms = std::max<int64_t>(limit_ms, 1);
  const sumcast_message message{sizeof(sumcast_message), &byte, 1, peer, 0x4D, tag};
  const int code = sumcast_exchange(group, &message, is_send ? 1 : 0, &message, is_send ? 0 : 1,
                                    &call, nullptr, nullptr, nullptr);
  return code == SUMCAST_OK ? std::string() : std::string(sumcast_last_error());
}

std::string list_of(const std::vector<int>& ranks) {
  std::string text;
  for (const int rank : ranks) text += (text.empty() ? "" : ", ") + std::to_string(rank);
  return text;
}

}  // namespace

/// All report to rank 0, which names who has not come, and then lets all go or tells them.
void SumcastBackend::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
  check_usable();
  const int64_t limit_ms =
      options.timeout == c10d::kUnsetTimeout ? group_->timeout_ms.load() : options.timeout.count();
  // It is numbered with the collectives, those that wait on the line before it.
  TORCH_CHECK(line_->wait_until_begun(std::chrono::milliseconds(limit_ms)),
              "sumcast: monitored_barrier: calls before it were not begun within ", limit_ms,
              " ms");
  uint64_t tag = 0;
  {
    const std::lock_guard lock(mutex_);
    tag = note_call(++sequence_, "monitored_barrier");
  }
  const auto handle = group_->handle();
  sumcast_group* group = handle.get();
  uint8_t byte = 0;
  if (getRank() != 0) {
    std::string error = pass(group, true, byte, 0, tag, limit_ms);
    if (error.empty()) error = pass(group, false, byte, 0, tag | 1, limit_ms);
    if (error.empty() && byte != 0) error = "rank 0 misses other ranks";
    TORCH_CHECK(error.empty(), "[Rank ", getRank(), "]: Rank ", getRank(),
                " successfully reached monitoredBarrier, but received errors while waiting for "
                "send/recv from rank 0: ",
                error, ". Please check rank 0 logs for faulty rank.");
    return;
  }
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(limit_ms);
  TORCH_CHECK(limit_ms > 0, "Rank 0 timed out in monitoredBarrier after ", limit_ms, " ms");
  std::vector<int> missing;
  std::string why;
  for (int rank = 1; rank < getSize(); ++rank) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        until - std::chrono::steady_clock::now());
    const std::string error =
        pass(group, false, byte, static_cast<uint32_t>(rank), tag, left.count());
    if (error.empty()) continue;
    missing.push_back(rank);
    why = error;
    if (!wait_all_ranks) break;
  }
  for (int rank = 1; rank < getSize(); ++rank) {
    uint8_t verdict = missing.empty() ? 0 : 1;
    (void)pass(group, true, verdict, static_cast<uint32_t>(rank), tag | 1, limit_ms);
  }
  TORCH_CHECK(missing.empty(), "[Rank 0]: ", missing.size() == 1 ? "Rank " : "Ranks ",
              list_of(missing), " failed to pass monitoredBarrier in ", limit_ms, " ms: ", why);
}

}  // namespace sumcast_torch

// What is made of messages: gather, scatter, all-to-all, point to point, monitored barrier.
#include <ATen/ATen.h>

#include <numeric>

#include "backend.h"

namespace sumcast_torch {
namespace {

using c10d::OpType;

/// Tags of operations; those of users are below.
constexpr uint64_t kOperationTag = uint64_t{1} << 63;

/// Equal at both ends of a message that mean the same.
uint32_t check_of(OpType type, const at::Tensor& tensor) {
  return static_cast<uint32_t>(type) << 8 | static_cast<uint32_t>(tensor.scalar_type());
}

void copy_own(const at::Tensor& from, const at::Tensor& to) {
  const at::NoGradGuard guard;
  at::Tensor target = to.detach();
  if (target.numel() > 0) target.copy_(from.detach().reshape(target.sizes()));
}

/// Told once by the library; its messages thread looks for itself then.
void poke(void* user) {
  const std::unique_ptr<std::weak_ptr<Completion>> whom(
      static_cast<std::weak_ptr<Completion>*>(user));
  if (const auto completion = whom->lock()) completion->poke();
}

/// Row offsets of splits of a tensor's first dimension.
std::vector<int64_t> bounds_of(const at::Tensor& tensor, const std::vector<int64_t>& splits,
                               int size) {
  const int64_t rows = tensor.dim() == 0 ? 0 : tensor.size(0);
  std::vector<int64_t> bounds{0};
  if (splits.empty()) {
    TORCH_CHECK(rows % size == 0, "sumcast: all_to_all_single divides ", rows, " rows among ", size,
                " ranks, which does not come out even; name the splits");
    for (int i = 1; i <= size; ++i) bounds.push_back(rows / size * i);
    return bounds;
  }
  TORCH_CHECK(splits.size() == static_cast<size_t>(size), "sumcast: all_to_all_single has ",
              splits.size(), " splits for ", size, " ranks");
  for (const int64_t split : splits) {
    TORCH_CHECK(split >= 0, "sumcast: all_to_all_single has a split of ", split, " rows");
    bounds.push_back(bounds.back() + split);
  }
  TORCH_CHECK(bounds.back() == rows, "sumcast: all_to_all_single has splits of ", bounds.back(),
              " rows in all, and the tensor has ", rows);
  return bounds;
}

}  // namespace

void SumcastBackend::Mail::send(const at::Tensor& tensor, int to, uint32_t check, uint64_t tag) {
  const at::Tensor data = packed(tensor.detach());
  sends.push_back({data.data_ptr(), bytes_of(data), static_cast<uint32_t>(to), check, tag});
  kept.push_back(data);
}

void SumcastBackend::Mail::receive(const at::Tensor& tensor, uint32_t from, uint32_t check,
                                   uint64_t tag) {
  const at::Tensor data = room_for(tensor.detach());
  receives.push_back({data.data_ptr(), bytes_of(data), from, check, tag});
  kept.push_back(data);
  unpack.emplace_back(tensor.detach(), data);
}

/// Begins an exchange. Called with the lock held.
c10::intrusive_ptr<c10d::Work> SumcastBackend::start_mail(Parts parts, Mail mail,
                                                          std::chrono::milliseconds timeout) {
  parts.is_message = true;
  parts.kept = std::move(mail.kept);
  parts.unpack = [unpack = std::move(mail.unpack)] {
    for (const auto& [target, data] : unpack) unpack_into(target, data);
  };
  const auto begin = [&](sumcast_group* group, const sumcast_call* call, sumcast_work** work) {
    auto whom = std::make_unique<std::weak_ptr<Completion>>(completion_);
    const int code =
        sumcast_exchange(group, mail.sends.data(), mail.sends.size(), mail.receives.data(),
                         mail.receives.size(), call, &poke, whom.get(), work);
    if (code == SUMCAST_OK) (void)whom.release();  // poke() has it, or had it.
    return code;
  };
  return start(std::move(parts), {begin}, timeout);
}

c10::intrusive_ptr<c10d::Work> SumcastBackend::gather(std::vector<std::vector<at::Tensor>>& outputs,
                                                      std::vector<at::Tensor>& inputs,
                                                      const c10d::GatherOptions& options) {
  check_usable();
  check_root(options.rootRank, "gather");
  TORCH_CHECK(inputs.size() == 1, "sumcast: gather takes one tensor, not ", inputs.size());
  check_tensor(inputs[0], "gather");
  const bool is_root = options.rootRank == getRank();
  TORCH_CHECK(is_root ? outputs.size() == 1 : outputs.empty() || outputs[0].empty(),
              "sumcast: gather takes a list of outputs on the root, and none elsewhere");
  const std::lock_guard lock(mutex_);
  std::vector<at::Tensor> all = is_root ? outputs[0] : std::vector<at::Tensor>();
  Mail mail;
  if (is_root) {
    TORCH_CHECK(all.size() == static_cast<size_t>(getSize()), "sumcast: gather in a group of ",
                getSize(), " needs as many outputs, not ", all.size());
    for (const at::Tensor& tensor : all) check_tensor(tensor, "gather");
    TORCH_CHECK(all[getRank()].numel() == inputs[0].numel(),
                "sumcast: gather has an output of another size than the input");
  }
  Parts what = parts(OpType::GATHER, "gather", inputs, all);
  const uint64_t tag = kOperationTag | what.sequence << 8;
  if (is_root) {
    for (int rank = 0; rank < getSize(); ++rank) {
      if (rank == getRank()) {
        copy_own(inputs[0], all[rank]);
      } else {
        mail.receive(all[rank], rank, check_of(OpType::GATHER, all[rank]), tag);
      }
    }
  } else {
    mail.send(inputs[0], static_cast<int>(options.rootRank), check_of(OpType::GATHER, inputs[0]),
              tag);
  }
  return start_mail(std::move(what), std::move(mail), options.timeout);
}

c10::intrusive_ptr<c10d::Work> SumcastBackend::scatter(std::vector<at::Tensor>& outputs,
                                                       std::vector<std::vector<at::Tensor>>& inputs,
                                                       const c10d::ScatterOptions& options) {
  check_usable();
  check_root(options.rootRank, "scatter");
  TORCH_CHECK(outputs.size() == 1, "sumcast: scatter takes one output, not ", outputs.size());
  check_tensor(outputs[0], "scatter");
  const bool is_root = options.rootRank == getRank();
  TORCH_CHECK(is_root ? inputs.size() == 1 : inputs.empty() || inputs[0].empty(),
              "sumcast: scatter takes a list of inputs on the root, and none elsewhere");
  if (is_root) {
    TORCH_CHECK(inputs[0].size() == static_cast<size_t>(getSize()),
                "sumcast: scatter in a group of ", getSize(), " needs as many inputs, not ",
                inputs[0].size());
    for (const at::Tensor& tensor : inputs[0]) check_tensor(tensor, "scatter");
    TORCH_CHECK(inputs[0][getRank()].numel() == outputs[0].numel(),
                "sumcast: scatter has an input of another size than the output");
  }
  const std::lock_guard lock(mutex_);
  Parts what =
      parts(OpType::SCATTER, "scatter", is_root ? inputs[0] : std::vector<at::Tensor>(), outputs);
  const uint64_t tag = kOperationTag | what.sequence << 8;
  Mail mail;
  if (is_root) {
    for (int rank = 0; rank < getSize(); ++rank) {
      const at::Tensor& tensor = inputs[0][rank];
      if (rank == getRank()) {
        copy_own(tensor, outputs[0]);
      } else {
        mail.send(tensor, rank, check_of(OpType::SCATTER, tensor), tag);
      }
    }
  } else {
    mail.receive(outputs[0], static_cast<uint32_t>(options.rootRank),
                 check_of(OpType::SCATTER, outputs[0]), tag);
  }
  return start_mail(std::move(what), std::move(mail), options.timeout);
}

c10::intrusive_ptr<c10d::Work> SumcastBackend::alltoall(std::vector<at::Tensor>& outputs,
                                                        std::vector<at::Tensor>& inputs,
                                                        const c10d::AllToAllOptions& options) {
  check_usable();
  const auto size = static_cast<size_t>(getSize());
  TORCH_CHECK(inputs.size() == size && outputs.size() == size, "sumcast: all_to_all in a group of ",
              size, " needs as many tensors, not ", inputs.size(), " and ", outputs.size());
  for (const auto* list : {&inputs, &outputs}) {
    for (const at::Tensor& tensor : *list) check_tensor(tensor, "all_to_all");
  }
  TORCH_CHECK(inputs[getRank()].numel() == outputs[getRank()].numel(),
              "sumcast: all_to_all sends itself ", inputs[getRank()].numel(),
              " elements and has room for ", outputs[getRank()].numel());
  const std::lock_guard lock(mutex_);
  Parts what = parts(OpType::ALLTOALL, "all_to_all", inputs, outputs);
  const uint64_t tag = kOperationTag | what.sequence << 8;
  Mail mail;
  copy_own(inputs[getRank()], outputs[getRank()]);
  // Starting behind oneself, so that not all send to the same rank first.
  for (int step = 1; step < getSize(); ++step) {
    const int to = (getRank() + step) % getSize();
    const int from = (getRank() + getSize() - step) % getSize();
    mail.receive(outputs[from], from, check_of(OpType::ALLTOALL, outputs[from]), tag);
    mail.send(inputs[to], to, check_of(OpType::ALLTOALL, inputs[to]), tag);
  }
  return start_mail(std::move(what), std::move(mail), options.timeout);
}

c10::intrusive_ptr<c10d::Work> SumcastBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                             std::vector<int64_t>& output_splits,
                                                             std::vector<int64_t>& input_splits,
                                                             const c10d::AllToAllOptions& options) {
  check_usable();
  check_tensor(output, "all_to_all_single");
  check_tensor(input, "all_to_all_single");
  TORCH_CHECK(input.scalar_type() == output.scalar_type(), "sumcast: all_to_all_single mixes ",
              input.scalar_type(), " and ", output.scalar_type());
  const auto in = bounds_of(input, input_splits, getSize());
  const auto out = bounds_of(output, output_splits, getSize());
  const int me = getRank();
  const at::Tensor from_all = packed(input.detach());
  const at::Tensor to_all = room_for(output.detach());
  const auto part = [](const at::Tensor& whole, const std::vector<int64_t>& bounds, int rank) {
    return whole.dim() == 0 ? whole.reshape({1}).narrow(0, 0, 0)
                            : whole.narrow(0, bounds[rank], bounds[rank + 1] - bounds[rank]);
  };
  TORCH_CHECK(part(from_all, in, me).numel() == part(to_all, out, me).numel(),
              "sumcast: all_to_all_single sends itself ", part(from_all, in, me).numel(),
              " elements and has room for ", part(to_all, out, me).numel());
  const std::lock_guard lock(mutex_);
  Parts what = parts(OpType::ALLTOALL_BASE, "all_to_all", {input}, {output});
  const uint64_t tag = kOperationTag | what.sequence << 8;
  const uint32_t check = check_of(OpType::ALLTOALL_BASE, input);
  Mail mail;
  copy_own(part(from_all, in, me), part(to_all, out, me));
  for (int step = 1; step < getSize(); ++step) {
    const int to = (me + step) % getSize();
    const int from = (me + getSize() - step) % getSize();
    mail.receive(part(to_all, out, from), from, check, tag);
    mail.send(part(from_all, in, to), to, check, tag);
  }
  mail.kept.push_back(from_all);
  mail.unpack.emplace_back(output.detach(), to_all);
  return start_mail(std::move(what), std::move(mail), options.timeout);
}

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
  const std::lock_guard lock(mutex_);
  Mail mail;
  mail.send(tensor, to, check_of(OpType::SEND, tensor), static_cast<uint32_t>(tag));
  return start_mail(message_parts(OpType::SEND, "send", tensors, to, tag), std::move(mail), {});
}

c10::intrusive_ptr<c10d::Work> SumcastBackend::recv(std::vector<at::Tensor>& tensors, int from,
                                                    int tag) {
  check_usable();
  const at::Tensor& tensor = message_of(tensors, "recv");
  check_root(from, "recv");
  const std::lock_guard lock(mutex_);
  Mail mail;
  mail.receive(tensor, static_cast<uint32_t>(from), check_of(OpType::SEND, tensor),
               static_cast<uint32_t>(tag));
  return start_mail(message_parts(OpType::RECV, "recv", tensors, from, tag), std::move(mail), {});
}

c10::intrusive_ptr<c10d::Work> SumcastBackend::recvAnysource(std::vector<at::Tensor>& tensors,
                                                             int tag) {
  check_usable();
  const at::Tensor& tensor = message_of(tensors, "recv from any");
  const std::lock_guard lock(mutex_);
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
  const sumcast_message message{&byte, 1, peer, 0x4D, tag};
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
  uint64_t tag = 0;
  {
    const std::lock_guard lock(mutex_);
    tag = kOperationTag | ++sequence_ << 8;
  }
  sumcast_group* group = group_->handle();
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

// What is made of messages: gather, scatter, all-to-all.
#include <ATen/ATen.h>

#include <numeric>

#include "backend.h"
#include "mail.h"

namespace sumcast_torch {
namespace {

using c10d::OpType;

void copy_own(const at::Tensor& from, const at::Tensor& to) {
  const at::NoGradGuard guard;
  at::Tensor target = to.detach();
  if (target.numel() > 0) target.copy_(from.detach().reshape(target.sizes()));
}

/// "Float"
std::string type_text(const at::Tensor& tensor) { return c10::toString(tensor.scalar_type()); }

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
  sends.push_back({sizeof(sumcast_message), data.data_ptr(), bytes_of(data),
                   static_cast<uint32_t>(to), check, tag});
  kept.push_back(data);
}

void SumcastBackend::Mail::receive(const at::Tensor& tensor, uint32_t from, uint32_t check,
                                   uint64_t tag) {
  const at::Tensor data = room_for(tensor.detach());
  receives.push_back({sizeof(sumcast_message), data.data_ptr(), bytes_of(data), from, check, tag});
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
  if (is_root) {
    const std::vector<at::Tensor>& all = outputs[0];
    TORCH_CHECK(all.size() == static_cast<size_t>(getSize()), "sumcast: gather in a group of ",
                getSize(), " needs as many outputs, not ", all.size());
    for (const at::Tensor& tensor : all) check_tensor(tensor, "gather");
    TORCH_CHECK(all[getRank()].numel() == inputs[0].numel(),
                "sumcast: gather has an output of another size than the input");
  }
  if (must_stage(inputs, outputs)) {
    const auto again = [this, options, is_root](Twins& in, Twins& out) {
      std::vector<Twins> lists;
      if (is_root) lists.push_back(out);
      return gather(lists, in, options);
    };
    const Twins targets = is_root ? outputs[0] : Twins();
    return stage(OpType::GATHER, "gather", inputs, targets, targets, options.timeout, again);
  }
  const Turn turn(*this);
  std::vector<at::Tensor> all = is_root ? outputs[0] : std::vector<at::Tensor>();
  Mail mail;
  Parts what = parts(OpType::GATHER, "gather", inputs, all);
  const uint64_t tag = note_call(what.sequence, "gather " + type_text(inputs[0]) + " to rank " +
                                                    std::to_string(options.rootRank));
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
  if (must_stage(outputs, inputs)) {
    const auto again = [this, options, is_root](Twins& in, Twins& out) {
      std::vector<Twins> lists;
      if (is_root) lists.push_back(in);
      return scatter(out, lists, options);
    };
    return stage(OpType::SCATTER, "scatter", is_root ? inputs[0] : Twins(), outputs, outputs,
                 options.timeout, again);
  }
  const Turn turn(*this);
  Parts what =
      parts(OpType::SCATTER, "scatter", is_root ? inputs[0] : std::vector<at::Tensor>(), outputs);
  const uint64_t tag = note_call(what.sequence, "scatter " + type_text(outputs[0]) + " from rank " +
                                                    std::to_string(options.rootRank));
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
  if (must_stage(inputs, outputs)) {
    const auto again = [this, options](Twins& in, Twins& out) {
      return alltoall(out, in, options);
    };
    return stage(OpType::ALLTOALL, "all_to_all", inputs, outputs, outputs, options.timeout, again);
  }
  const Turn turn(*this);
  Parts what = parts(OpType::ALLTOALL, "all_to_all", inputs, outputs);
  const uint64_t tag = note_call(what.sequence, "all_to_all");
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
  const auto part = [](const at::Tensor& whole, const std::vector<int64_t>& bounds, int rank) {
    return whole.dim() == 0 ? whole.reshape({1}).narrow(0, 0, 0)
                            : whole.narrow(0, bounds[rank], bounds[rank + 1] - bounds[rank]);
  };
  const int64_t own = part(input.detach(), in, me).numel();
  const int64_t room = part(output.detach(), out, me).numel();
  TORCH_CHECK(own == room, "sumcast: all_to_all_single sends itself ", own,
              " elements and has room for ", room);
  if (must_stage(input, output)) {
    auto again = [this, options, output_splits, input_splits](Twins& from, Twins& to) mutable {
      return alltoall_base(to[0], from[0], output_splits, input_splits, options);
    };
    return stage(OpType::ALLTOALL_BASE, "all_to_all_single", {input}, {output}, {output},
                 options.timeout, std::move(again));
  }
  const at::Tensor from_all = packed(input.detach());
  const at::Tensor to_all = room_for(output.detach());
  const Turn turn(*this);
  Parts what = parts(OpType::ALLTOALL_BASE, "all_to_all", {input}, {output});
  const uint64_t tag = note_call(what.sequence, "all_to_all_single " + type_text(input));
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

}  // namespace sumcast_torch

// Collectives that the library does itself.
#include <ATen/ATen.h>

#include "backend.h"

namespace sumcast_torch {
namespace {

using c10d::OpType;

const at::Tensor& only(const std::vector<at::Tensor>& tensors, const char* operation) {
  TORCH_CHECK(tensors.size() == 1, "sumcast: ", operation, " takes one tensor, not ",
              tensors.size());
  check_tensor(tensors[0], operation);
  return tensors[0];
}

/// An operation that unpacks one thing more.
void also(Parts& parts, std::function<void()> unpack) {
  parts.unpack =
      parts.unpack
          ? std::function<void()>([first = std::move(parts.unpack), second = std::move(unpack)] {
              first();
              second();
            })
          : std::move(unpack);
}

template <typename Options>
Options of_host(Options options) {
  options.reduceOp = on_host(options.reduceOp);
  return options;
}

/// A flat list as lists of `each`.
std::vector<Twins> lists_of(const Twins& flat, size_t each) {
  std::vector<Twins> lists;
  for (size_t i = 0; each > 0 && i < flat.size(); i += each) {
    lists.emplace_back(flat.begin() + i, flat.begin() + i + each);
  }
  return lists;
}

void check_flat(const at::Tensor& whole, const at::Tensor& part, int size, const char* operation) {
  check_tensor(whole, operation);
  check_tensor(part, operation);
  TORCH_CHECK(whole.scalar_type() == part.scalar_type(), "sumcast: ", operation, " mixes ",
              whole.scalar_type(), " and ", part.scalar_type());
  TORCH_CHECK(whole.numel() == part.numel() * size, "sumcast: ", operation, " in a group of ", size,
              " needs ", size, " times ", part.numel(), " elements, not ", whole.numel());
}

void check_list(const std::vector<at::Tensor>& list, const at::Tensor& like, int size,
                const char* operation) {
  check_tensor(like, operation);
  TORCH_CHECK(list.size() == static_cast<size_t>(size), "sumcast: ", operation, " in a group of ",
              size, " needs ", size, " tensors in the list, not ", list.size());
  for (const at::Tensor& tensor : list) {
    check_tensor(tensor, operation);
    TORCH_CHECK(tensor.scalar_type() == like.scalar_type() && tensor.numel() == like.numel(),
                "sumcast: ", operation, " needs tensors of one type and size, and was given ",
                tensor.scalar_type(), tensor.sizes(), " beside ", like.scalar_type(), like.sizes());
  }
}

}  // namespace

SumcastBackend::Call SumcastBackend::reduce_call(const at::Tensor& tensor,
                                                 const Arithmetic& arithmetic, Parts& parts) {
  const at::Tensor in = arithmetic.encode(tensor);
  const at::Tensor out = arithmetic.room(tensor);
  parts.kept.insert(parts.kept.end(), {in, out});
  also(parts, [=] { arithmetic.decode(out, tensor); });
  return [from = lanes_of(in), to = lanes_of(out), reduction = arithmetic.reduction()](
             sumcast_group* group, const sumcast_call* call, sumcast_work** work) {
    return sumcast_all_reduce(group, from.data, to.data, from.count, from.type, reduction, call,
                              work);
  };
}

c10::intrusive_ptr<c10d::Work> SumcastBackend::allreduce(std::vector<at::Tensor>& tensors,
                                                         const c10d::AllreduceOptions& options) {
  check_usable();
  TORCH_CHECK(tensors.size() == 1, "sumcast: all_reduce takes one tensor, not ", tensors.size());
  if (tensors[0].layout() == c10::kSparse) return allreduce_sparse(tensors, options);
  const Arithmetic arithmetic(tensors[0], options.reduceOp, "all_reduce");
  if (must_stage(tensors)) {
    const auto again = [this, options](Twins&, Twins& out) {
      return allreduce(out, of_host(options));
    };
    return stage(OpType::ALLREDUCE, "all_reduce", tensors, tensors, tensors, options.timeout, again,
                 true);
  }
  const Turn turn(*this);
  Parts what = parts(OpType::ALLREDUCE, "all_reduce", tensors, tensors);
  const Call call = reduce_call(tensors[0], arithmetic, what);
  return start(std::move(what), {call}, options.timeout);
}

c10::intrusive_ptr<c10d::Work> SumcastBackend::allreduce_coalesced(
    std::vector<at::Tensor>& tensors, const c10d::AllreduceCoalescedOptions& options) {
  check_usable();
  std::vector<Arithmetic> arithmetic;
  for (const at::Tensor& one : tensors) {
    arithmetic.emplace_back(one, options.reduceOp, "all_reduce_coalesced");
  }
  if (must_stage(tensors)) {
    const auto again = [this, options](Twins&, Twins& out) {
      return allreduce_coalesced(out, of_host(options));
    };
    return stage(OpType::ALLREDUCE_COALESCED, "all_reduce", tensors, tensors, tensors,
                 options.timeout, again);
  }
  const Turn turn(*this);
  Parts what = parts(OpType::ALLREDUCE_COALESCED, "all_reduce", tensors, tensors);
  std::vector<Call> calls;
  for (size_t i = 0; i < tensors.size(); ++i) {
    calls.push_back(reduce_call(tensors[i], arithmetic[i], what));
  }
  return start(std::move(what), calls, options.timeout);
}

c10::intrusive_ptr<c10d::Work> SumcastBackend::reduce(std::vector<at::Tensor>& tensors,
                                                      const c10d::ReduceOptions& options) {
  check_usable();
  const at::Tensor tensor = only(tensors, "reduce");
  check_root(options.rootRank, "reduce");
  const Arithmetic arithmetic(tensor, options.reduceOp, "reduce");
  const bool is_root = options.rootRank == getRank();
  if (must_stage(tensors)) {
    const auto again = [this, options](Twins& in, Twins&) { return reduce(in, of_host(options)); };
    return stage(OpType::REDUCE, "reduce", tensors, is_root ? tensors : Twins(), tensors,
                 options.timeout, again, true);
  }
  const at::Tensor in = arithmetic.encode(tensor);
  const at::Tensor out = is_root ? arithmetic.room(tensor) : at::Tensor();
  const Turn turn(*this);
  Parts what = parts(OpType::REDUCE, "reduce", tensors, tensors);
  what.kept = {in, out};
  if (is_root) what.unpack = [=] { arithmetic.decode(out, tensor); };
  const Lanes from = lanes_of(in);
  void* to = is_root ? out.data_ptr() : nullptr;
  const auto root = static_cast<uint32_t>(options.rootRank);
  return start(std::move(what),
               {[=](sumcast_group* group, const sumcast_call* call, sumcast_work** work) {
                 return sumcast_reduce(group, from.data, to, from.count, from.type,
                                       arithmetic.reduction(), root, call, work);
               }},
               options.timeout);
}

c10::intrusive_ptr<c10d::Work> SumcastBackend::broadcast(std::vector<at::Tensor>& tensors,
                                                         const c10d::BroadcastOptions& options) {
  check_usable();
  const at::Tensor tensor = only(tensors, "broadcast").detach();
  check_root(options.rootRank, "broadcast");
  const bool is_root = options.rootRank == getRank();
  if (must_stage(tensors)) {
    const auto again = [this, options, is_root](Twins& in, Twins& out) {
      return broadcast(is_root ? in : out, options);
    };
    return stage(OpType::BROADCAST, "broadcast", is_root ? tensors : Twins(),
                 is_root ? Twins() : tensors, tensors, options.timeout, again, true);
  }
  const at::Tensor data = is_root ? packed(tensor) : room_for(tensor);
  const Turn turn(*this);
  Parts what = parts(OpType::BROADCAST, "broadcast", tensors, tensors);
  what.kept = {data};
  if (!is_root) what.unpack = [=] { unpack_into(tensor, data); };
  const auto root = static_cast<uint32_t>(options.rootRank);
  return start(std::move(what),
               {[root, to = lanes_of(data)](sumcast_group* group, const sumcast_call* call,
                                            sumcast_work** work) {
                 return sumcast_broadcast(group, to.data, to.count, to.type, root, call, work);
               }},
               options.timeout);
}

SumcastBackend::Call SumcastBackend::gather_call(const at::Tensor& output, const at::Tensor& input,
                                                 Parts& parts) {
  const at::Tensor in = packed(input.detach());
  const at::Tensor out = room_for(output.detach());
  parts.kept.insert(parts.kept.end(), {in, out});
  also(parts, [=] { unpack_into(output.detach(), out); });
  return [from = lanes_of(in), to = lanes_of(out)](sumcast_group* group, const sumcast_call* call,
                                                   sumcast_work** work) {
    return sumcast_all_gather(group, from.data, to.data, from.count, from.type, call, work);
  };
}

c10::intrusive_ptr<c10d::Work> SumcastBackend::_allgather_base(
    at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) {
  check_usable();
  check_flat(output, input, getSize(), "all_gather_into_tensor");
  if (must_stage(output, input)) {
    const auto again = [this, options](Twins& in, Twins& out) {
      return _allgather_base(out[0], in[0], options);
    };
    return stage(OpType::_ALLGATHER_BASE, "all_gather_into_tensor", {input}, {output}, {output},
                 options.timeout, again);
  }
  const Turn turn(*this);
  Parts what = parts(OpType::_ALLGATHER_BASE, "_all_gather_base", {input}, {output});
  const Call call = gather_call(output, input, what);
  return start(std::move(what), {call}, options.timeout);
}

c10::intrusive_ptr<c10d::Work> SumcastBackend::allgather_into_tensor_coalesced(
    std::vector<at::Tensor>& outputs, std::vector<at::Tensor>& inputs,
    const c10d::AllgatherOptions& options) {
  check_usable();
  TORCH_CHECK(outputs.size() == inputs.size(), "sumcast: all_gather_into_tensor_coalesced has ",
              outputs.size(), " outputs and ", inputs.size(), " inputs");
  for (size_t i = 0; i < inputs.size(); ++i) {
    check_flat(outputs[i], inputs[i], getSize(), "all_gather_into_tensor_coalesced");
  }
  if (must_stage(outputs, inputs)) {
    const auto again = [this, options](Twins& in, Twins& out) {
      return allgather_into_tensor_coalesced(out, in, options);
    };
    return stage(OpType::ALLGATHER_COALESCED, "all_gather_into_tensor_coalesced", inputs, outputs,
                 outputs, options.timeout, again);
  }
  const Turn turn(*this);
  Parts what = parts(OpType::ALLGATHER_COALESCED, "all_gather", inputs, outputs);
  std::vector<Call> calls;
  for (size_t i = 0; i < inputs.size(); ++i) {
    calls.push_back(gather_call(outputs[i], inputs[i], what));
  }
  return start(std::move(what), calls, options.timeout);
}

/// Into a list: gathered into one buffer and dealt out.
SumcastBackend::Call SumcastBackend::deal_call(const std::vector<at::Tensor>& outputs,
                                               const at::Tensor& input, Parts& parts) {
  const at::Tensor flat =
      at::empty({getSize(), input.numel()}, input.options().requires_grad(false));
  Call call = gather_call(flat, input, parts);
  also(parts, [flat, outputs] {
    for (size_t rank = 0; rank < outputs.size(); ++rank) {
      unpack_into(outputs[rank].detach(), flat[static_cast<int64_t>(rank)]);
    }
  });
  return call;
}

c10::intrusive_ptr<c10d::Work> SumcastBackend::allgather(
    std::vector<std::vector<at::Tensor>>& outputs, std::vector<at::Tensor>& inputs,
    const c10d::AllgatherOptions& options) {
  check_usable();
  const at::Tensor& input = only(inputs, "all_gather");
  TORCH_CHECK(outputs.size() == 1, "sumcast: all_gather takes one list of outputs, not ",
              outputs.size());
  check_list(outputs[0], input, getSize(), "all_gather");
  if (must_stage(outputs, inputs)) {
    const auto again = [this, options](Twins& in, Twins& out) {
      std::vector<Twins> list{out};
      return allgather(list, in, options);
    };
    return stage(OpType::ALLGATHER, "all_gather", inputs, outputs[0], outputs[0], options.timeout,
                 again);
  }
  const Turn turn(*this);
  Parts what = parts(OpType::ALLGATHER, "all_gather", inputs, outputs[0]);
  const Call call = deal_call(outputs[0], input, what);
  return start(std::move(what), {call}, options.timeout);
}

/// outputs[rank][i] is what rank gives as its i-th input.
c10::intrusive_ptr<c10d::Work> SumcastBackend::allgather_coalesced(
    std::vector<std::vector<at::Tensor>>& outputs, std::vector<at::Tensor>& inputs,
    const c10d::AllgatherOptions& options) {
  check_usable();
  std::vector<std::vector<at::Tensor>> by_input(inputs.size());
  std::vector<at::Tensor> all;
  for (const auto& of_rank : outputs) {
    TORCH_CHECK(of_rank.size() == inputs.size(), "sumcast: all_gather_coalesced has ",
                of_rank.size(), " outputs of a rank for ", inputs.size(), " inputs");
    for (size_t i = 0; i < inputs.size(); ++i) by_input[i].push_back(of_rank[i]);
    all.insert(all.end(), of_rank.begin(), of_rank.end());
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    check_list(by_input[i], inputs[i], getSize(), "all_gather_coalesced");
  }
  if (must_stage(outputs, inputs)) {
    const auto again = [this, options](Twins& in, Twins& out) {
      auto lists = lists_of(out, in.size());
      return allgather_coalesced(lists, in, options);
    };
    return stage(OpType::ALLGATHER_COALESCED, "all_gather_coalesced", inputs, all, all,
                 options.timeout, again);
  }
  const Turn turn(*this);
  Parts what = parts(OpType::ALLGATHER_COALESCED, "all_gather", inputs, std::move(all));
  std::vector<Call> calls;
  for (size_t i = 0; i < inputs.size(); ++i) {
    calls.push_back(deal_call(by_input[i], inputs[i], what));
  }
  return start(std::move(what), calls, options.timeout);
}

SumcastBackend::Call SumcastBackend::scatter_call(const at::Tensor& output, const at::Tensor& input,
                                                  const Arithmetic& arithmetic, Parts& parts) {
  const at::Tensor in = arithmetic.encode(input);
  const at::Tensor out = arithmetic.room(output);
  parts.kept.insert(parts.kept.end(), {in, out});
  also(parts, [=] { arithmetic.decode(out, output); });
  return [from = lanes_of(in), to = lanes_of(out), reduction = arithmetic.reduction()](
             sumcast_group* group, const sumcast_call* call, sumcast_work** work) {
    return sumcast_reduce_scatter(group, from.data, to.data, to.count, to.type, reduction, call,
                                  work);
  };
}

c10::intrusive_ptr<c10d::Work> SumcastBackend::_reduce_scatter_base(
    at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) {
  check_usable();
  check_flat(input, output, getSize(), "reduce_scatter_tensor");
  const Arithmetic arithmetic(output, options.reduceOp, "reduce_scatter_tensor");
  if (must_stage(input, output)) {
    const auto again = [this, options](Twins& in, Twins& out) {
      return _reduce_scatter_base(out[0], in[0], of_host(options));
    };
    return stage(OpType::_REDUCE_SCATTER_BASE, "reduce_scatter_tensor", {input}, {output}, {output},
                 options.timeout, again);
  }
  const Turn turn(*this);
  Parts what = parts(OpType::_REDUCE_SCATTER_BASE, "_reduce_scatter_base", {input}, {output});
  const Call call = scatter_call(output, input, arithmetic, what);
  return start(std::move(what), {call}, options.timeout);
}

c10::intrusive_ptr<c10d::Work> SumcastBackend::reduce_scatter_tensor_coalesced(
    std::vector<at::Tensor>& outputs, std::vector<at::Tensor>& inputs,
    const c10d::ReduceScatterOptions& options) {
  check_usable();
  TORCH_CHECK(outputs.size() == inputs.size(), "sumcast: reduce_scatter_tensor_coalesced has ",
              outputs.size(), " outputs and ", inputs.size(), " inputs");
  std::vector<Arithmetic> arithmetic;
  for (size_t i = 0; i < inputs.size(); ++i) {
    check_flat(inputs[i], outputs[i], getSize(), "reduce_scatter_tensor_coalesced");
    arithmetic.emplace_back(outputs[i], options.reduceOp, "reduce_scatter_tensor_coalesced");
  }
  if (must_stage(inputs, outputs)) {
    const auto again = [this, options](Twins& in, Twins& out) {
      return reduce_scatter_tensor_coalesced(out, in, of_host(options));
    };
    return stage(OpType::REDUCE_SCATTER_TENSOR_COALESCED, "reduce_scatter_tensor_coalesced", inputs,
                 outputs, outputs, options.timeout, again);
  }
  const Turn turn(*this);
  Parts what = parts(OpType::REDUCE_SCATTER_TENSOR_COALESCED, "reduce_scatter", inputs, outputs);
  std::vector<Call> calls;
  for (size_t i = 0; i < inputs.size(); ++i) {
    calls.push_back(scatter_call(outputs[i], inputs[i], arithmetic[i], what));
  }
  return start(std::move(what), calls, options.timeout);
}

c10::intrusive_ptr<c10d::Work> SumcastBackend::reduce_scatter(
    std::vector<at::Tensor>& outputs, std::vector<std::vector<at::Tensor>>& inputs,
    const c10d::ReduceScatterOptions& options) {
  check_usable();
  TORCH_CHECK(outputs.size() == inputs.size(), "sumcast: reduce_scatter has ", outputs.size(),
              " outputs for ", inputs.size(), " lists");
  std::vector<at::Tensor> all;
  std::vector<Arithmetic> arithmetic;
  for (size_t i = 0; i < outputs.size(); ++i) {
    check_list(inputs[i], outputs[i], getSize(), "reduce_scatter");
    arithmetic.emplace_back(outputs[i], options.reduceOp, "reduce_scatter");
    all.insert(all.end(), inputs[i].begin(), inputs[i].end());
  }
  if (must_stage(inputs, outputs)) {
    const auto again = [this, options](Twins& in, Twins& out) {
      auto lists = lists_of(in, static_cast<size_t>(getSize()));
      return reduce_scatter(out, lists, of_host(options));
    };
    return stage(OpType::REDUCE_SCATTER, "reduce_scatter", all, outputs, outputs, options.timeout,
                 again);
  }
  const Turn turn(*this);
  Parts what = parts(OpType::REDUCE_SCATTER, "reduce_scatter", std::move(all), outputs);
  std::vector<Call> calls;
  for (size_t i = 0; i < outputs.size(); ++i) {
    std::vector<at::Tensor> flat;
    for (const at::Tensor& tensor : inputs[i]) flat.push_back(tensor.detach().reshape({-1}));
    calls.push_back(scatter_call(outputs[i], at::cat(flat), arithmetic[i], what));
  }
  return start(std::move(what), calls, options.timeout);
}

c10::intrusive_ptr<c10d::Work> SumcastBackend::barrier(const c10d::BarrierOptions& options) {
  check_usable();
  if (must_stage()) {
    const auto again = [this, options](Twins&, Twins&) { return barrier(options); };
    return stage(OpType::BARRIER, "barrier", {}, {}, {}, options.timeout, again);
  }
  const Turn turn(*this);
  return start(parts(OpType::BARRIER, "barrier", {}, {}),
               {[](sumcast_group* group, const sumcast_call* call, sumcast_work** work) {
                 return sumcast_barrier(group, call, work);
               }},
               options.timeout);
}

}  // namespace sumcast_torch

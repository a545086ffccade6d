// Collectives that reduce, which the library does itself.
#include <ATen/ATen.h>

#include "backend.h"
#include "checks.h"

namespace sumcast_torch {
namespace {

using c10d::OpType;

/// Options for tensors of the host. A factor on the device is waited for, here in the call: the
/// line's thread must not use a stream that may wait for it.
template <typename Options>
Options of_host(Options options) {
  options.reduceOp = on_host(options.reduceOp);
  return options;
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
    const auto again = [this, options = of_host(options)](Twins&, Twins& out) {
      return allreduce(out, options);
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
    const auto again = [this, options = of_host(options)](Twins&, Twins& out) {
      return allreduce_coalesced(out, options);
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
    const auto again = [this, options = of_host(options)](Twins& in, Twins&) {
      return reduce(in, options);
    };
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
    const auto again = [this, options = of_host(options)](Twins& in, Twins& out) {
      return _reduce_scatter_base(out[0], in[0], options);
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
    const auto again = [this, options = of_host(options)](Twins& in, Twins& out) {
      return reduce_scatter_tensor_coalesced(out, in, options);
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
    const auto again = [this, options = of_host(options)](Twins& in, Twins& out) {
      auto lists = lists_of(in, static_cast<size_t>(getSize()));
      return reduce_scatter(out, lists, options);
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

}  // namespace sumcast_torch

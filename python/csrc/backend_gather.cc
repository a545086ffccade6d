// Collectives that move data to all, which the library does itself; and the barrier.
#include <ATen/ATen.h>

#include "backend.h"
#include "checks.h"

namespace sumcast_torch {

using c10d::OpType;

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

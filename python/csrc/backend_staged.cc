// Calls that go through a line.
#include <ATen/ATen.h>

#include "backend.h"

namespace sumcast_torch {
namespace {

using c10d::OpType;

bool is_point(OpType type) {
  return type == OpType::SEND || type == OpType::RECV || type == OpType::RECVANYSOURCE;
}

/// Throws unless all are where the first is.
void check_together(const Twins& some, const Twins& others, const char* operation) {
  const at::Tensor* first = nullptr;
  for (const Twins* list : {&some, &others}) {
    for (const at::Tensor& tensor : *list) {
      if (first == nullptr) first = &tensor;
      TORCH_CHECK(tensor.device() == first->device(), "sumcast: ", operation,
                  " was given tensors on ", first->device(), " and on ", tensor.device(),
                  "; all tensors of a call are on one device");
    }
  }
}

}  // namespace

c10::intrusive_ptr<c10d::Work> SumcastBackend::stage(OpType type, const char* operation,
                                                     Twins reads, Twins writes, Twins outputs,
                                                     std::chrono::milliseconds timeout,
                                                     StagedCall call, bool divisible) {
  check_together(reads, writes, operation);
  Cargo cargo;
  cargo.type = type;
  cargo.name = operation + place_text();
  cargo.reads = std::move(reads);
  cargo.writes = std::move(writes);
  cargo.outputs = std::move(outputs);
  cargo.divisible = divisible;
  cargo.may_queue_ahead = !is_point(type);
  cargo.limit_ms = limit(timeout);
  cargo.call = std::move(call);
  auto work = (is_point(type) ? mail_line_ : line_)->submit(std::move(cargo));
  const std::lock_guard lock(mutex_);
  if (coalescing_) coalesced_.push_back(work);
  return work;
}

/// What waits on the lines, or is under way from there, ends. With `patience` it may end well.
void SumcastBackend::end_lines(const std::string& why, std::chrono::milliseconds patience) {
  bool all = true;
  const auto until = std::chrono::steady_clock::now() + patience;
  for (const auto& line : {line_, mail_line_}) {
    const auto left = until - std::chrono::steady_clock::now();
    all &= line->wait_until_ended(
        std::max(std::chrono::duration_cast<std::chrono::milliseconds>(left), {}));
  }
  if (all) return;
  if (const auto handle = group_->handle()) sumcast_group_abort(handle.get(), why.c_str());
  for (const auto& line : {line_, mail_line_}) line->fail_all(why);
  for (const auto& line : {line_, mail_line_}) line->wait_until_ended(Line::kFence);
}

}  // namespace sumcast_torch

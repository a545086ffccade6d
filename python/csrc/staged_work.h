// A call on tensors of an accelerator, as torch.distributed sees it.
//
// Its end on the host comes first: the network is done and the copies back are queued. Then its
// results are in the order of the device: wait() makes the caller's current stream wait for the
// copies, and does not wait for them itself. If the device will come to them by itself, as calls
// that are queued ahead arrange it, wait() without a timeout waits for nothing.
#pragma once

#include <ATen/core/ivalue.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sumcast_torch {

class StagedWork final : public c10d::Work {
 public:
  /// @param device   of the tensors; none: they are in host memory.
  /// @param abandon  ends the group for a reason, and this work with it.
  StagedWork(c10d::OpType type, std::string name, std::vector<at::Tensor> outputs,
             std::optional<c10::Device> device,
             std::function<void(const std::string& why)> abandon);

  /// The device will come to `done` by itself: wait() need not wait for the host's part. Once,
  /// before anybody has this work.
  void promise(std::shared_ptr<c10::Event> done);
  /// Once. @param done  behind the last copy back; nullptr: there is none.
  void finish(std::exception_ptr failure, std::shared_ptr<c10::Event> done, int source);
  /// Behind finish(): completes the future, whose callbacks run. @param stream  of the copies back.
  void announce(std::optional<c10::Stream> stream);

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  int sourceRank() const override;
  std::vector<at::Tensor> result() override;
  void synchronize() override;
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  void abort() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

 private:
  const std::string name_;
  const std::vector<at::Tensor> outputs_;
  const std::optional<c10::Device> device_;
  const std::function<void(const std::string&)> abandon_;
  const c10::intrusive_ptr<c10::ivalue::Future> future_;
  std::shared_ptr<c10::Event> done_;
  bool promised_ = false;
  int source_ = -1;
};

}  // namespace sumcast_torch

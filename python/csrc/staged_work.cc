#include "staged_work.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "work.h"

namespace sumcast_torch {
namespace {

std::vector<c10::Device> list_of(const std::optional<c10::Device>& device) {
  return device ? std::vector<c10::Device>{*device} : std::vector<c10::Device>{};
}

}  // namespace

StagedWork::StagedWork(c10d::OpType type, std::string name, std::vector<at::Tensor> outputs,
                       std::optional<c10::Device> device,
                       std::function<void(const std::string&)> abandon)
    : c10d::Work(-1, type),
      name_(std::move(name)),
      outputs_(std::move(outputs)),
      device_(device),
      abandon_(std::move(abandon)),
      future_(c10::make_intrusive<c10::ivalue::Future>(
          c10::ListType::create(c10::TensorType::get()), list_of(device))) {}

void StagedWork::promise(std::shared_ptr<c10::Event> done) {
  const std::lock_guard lock(mutex_);
  promised_ = done != nullptr;
  done_ = std::move(done);
}

void StagedWork::finish(std::exception_ptr failure, std::shared_ptr<c10::Event> done, int source) {
  const std::lock_guard lock(mutex_);
  exception_ = failure;
  done_ = std::move(done);
  source_ = source;
  completed_ = true;
  cv_.notify_all();
}

void StagedWork::announce(std::optional<c10::Stream> stream) {
  // Any thread may do it: CUDA would make one without this a context on device 0.
  const c10::OptionalDeviceGuard device_guard(device_);
  if (const auto failure = exception()) {
    future_->setError(failure);
    return;
  }
  // A future notes where the current streams are; callbacks run on streams that wait for that.
  c10::OptionalStreamGuard guard;
  if (stream) guard.reset_stream(*stream);
  future_->markCompleted(c10::IValue(outputs_));
}

bool StagedWork::isCompleted() {
  const std::lock_guard lock(mutex_);
  return completed_ && (exception_ || !done_ || done_->query());
}

bool StagedWork::isSuccess() const {
  const std::lock_guard lock(mutex_);
  return completed_ && !exception_;
}

std::exception_ptr StagedWork::exception() const {
  const std::lock_guard lock(mutex_);
  return exception_;
}

int StagedWork::sourceRank() const {
  const std::lock_guard lock(mutex_);
  return source_;
}

std::vector<at::Tensor> StagedWork::result() { return outputs_; }

void StagedWork::synchronize() { wait(); }

bool StagedWork::wait(std::chrono::milliseconds timeout) {
  std::shared_ptr<c10::Event> done;
  {
    std::unique_lock lock(mutex_);
    const auto is_over = [&] { return completed_; };
    if (timeout.count() <= 0 && promised_) {
      // A failure that has not come yet shows in the group's next call.
    } else if (timeout.count() <= 0) {
      cv_.wait(lock, is_over);
    } else if (!cv_.wait_for(lock, timeout, is_over)) {
      lock.unlock();
      const std::string why = name_ + ": not done after " + std::to_string(timeout.count()) + " ms";
      abandon_(why);
      std::rethrow_exception(backend_error(why));
    }
    if (exception_) std::rethrow_exception(exception_);
    done = done_;
  }
  if (done) done->block(c10::impl::VirtualGuardImpl(device_->type()).getStream(*device_));
  return true;
}

void StagedWork::abort() { abandon_(name_ + " was aborted by this rank"); }

}  // namespace sumcast_torch

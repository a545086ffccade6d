#include "work.h"

#include <c10/util/Exception.h>

#include <algorithm>

#include "completion.h"

namespace sumcast_torch {

std::exception_ptr backend_error(const std::string& text) {
  return std::make_exception_ptr(C10_BUILD_ERROR(DistBackendError, "sumcast: " + text));
}

std::string one_line(const std::exception& error) {
  const auto* of_torch = dynamic_cast<const c10::Error*>(&error);
  const std::string text = of_torch != nullptr ? of_torch->what_without_backtrace() : error.what();
  return text.substr(0, text.find('\n'));
}

SumcastWork::SumcastWork(std::shared_ptr<Group> group, std::shared_ptr<Completion> completion,
                         int rank, Parts parts, int64_t limit_ms)
    : c10d::Work(rank, parts.type, ("sumcast:" + parts.operation).c_str(),
                 std::optional(parts.inputs)),
      parts_(std::move(parts)),
      group_(std::move(group)),
      completion_(std::move(completion)),
      started_(std::chrono::steady_clock::now()),
      overdue_(started_ + std::chrono::milliseconds(limit_ms)) {}

void SumcastWork::begin(std::vector<NativeWork> natives) {
  const std::lock_guard lock(mutex_);
  natives_ = std::move(natives);
}

void SumcastWork::begin_elsewhere() {
  const std::lock_guard lock(mutex_);
  external_ = true;
}

std::vector<NativeWork> SumcastWork::natives() const {
  const std::lock_guard lock(mutex_);
  return natives_;
}

bool SumcastWork::is_ended() {
  {
    const std::lock_guard lock(mutex_);
    if (completed_) return true;
    if (external_) return false;
  }
  for (const NativeWork& native : natives()) {
    if (sumcast_work_is_done(native.get()) == 0) return false;
  }
  return true;
}

bool SumcastWork::is_forgotten() {
  {
    const std::lock_guard lock(mutex_);
    if (future_) return false;
  }
  return is_ended();
}

std::exception_ptr SumcastWork::failure_of(int code, const std::string& text) const {
  if (code == SUMCAST_OK) return nullptr;
  // Programs look for these words in what other backends say.
  const char* kind = code == SUMCAST_TIMEOUT ? ": the timeout passed: " : ": ";
  return backend_error(parts_.name + kind + text);
}

void SumcastWork::settle(int64_t timeout_ms) {
  {
    std::unique_lock lock(mutex_);
    if (completed_) return;
    if (external_) {
      if (timeout_ms < 0) {
        cv_.wait(lock, [&] { return completed_; });
      } else {
        cv_.wait_for(lock, std::chrono::milliseconds(timeout_ms), [&] { return completed_; });
      }
      return;
    }
  }
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  std::exception_ptr failure;
  for (const NativeWork& native : natives()) {
    int64_t left = -1;
    if (timeout_ms >= 0) {
      const auto span = until - std::chrono::steady_clock::now();
      left =
          std::max<int64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(span).count(), 0);
    }
    const int code = sumcast_work_wait(native.get(), left);
    if (!failure) failure = failure_of(code, sumcast_last_error());
    if (const uint32_t source = sumcast_work_source(native.get()); source != SUMCAST_ANY_RANK) {
      const std::lock_guard lock(mutex_);
      source_ = static_cast<int>(source);
    }
  }
  complete(failure);
}

/// Once, by whoever comes first; the others wait until it is through.
void SumcastWork::complete(std::exception_ptr failure) {
  {
    std::unique_lock lock(mutex_);
    if (completing_) {
      cv_.wait(lock, [&] { return completed_; });
      return;
    }
    completing_ = true;
  }
  if (!failure && parts_.unpack) {
    try {
      parts_.unpack();
    } catch (...) {
      failure = std::current_exception();
    }
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started_;
  group_->count(parts_.operation, parts_.bytes, took.count(), failure != nullptr,
                parts_.is_continued);
  c10::intrusive_ptr<c10::ivalue::Future> future;
  std::shared_ptr<Group> group;  // Goes behind the lock: it may be the last.
  std::shared_ptr<Completion> completion;
  std::vector<NativeWork> natives;
  std::function<void()> record_end;
  // And so do tensors: dropping one may need Python's lock, whose holder may wait for ours.
  std::vector<at::Tensor> inputs, kept;
  std::function<void()> unpack;
  {
    const std::lock_guard lock(mutex_);
    exception_ = failure;
    completed_ = true;
    over_ = true;
    future = future_;
    group = std::move(group_);
    completion = std::move(completion_);
    natives = std::move(natives_);
    natives_.clear();
    unpack.swap(parts_.unpack);
    kept.swap(parts_.kept);
    inputs.swap(parts_.inputs);
    record_end = std::move(recordFunctionEndCallback_);
    recordFunctionEndCallback_ = nullptr;
    cv_.notify_all();
  }
  if (record_end) record_end();
  if (!future) return;
  Completion::leave_post();
  if (failure) {
    future->setError(failure);
  } else {
    future->markCompleted(c10::IValue(parts_.outputs));
  }
}

void SumcastWork::end(std::exception_ptr failure) { complete(failure); }

bool SumcastWork::isCompleted() {
  if (is_ended()) {
    settle(-1);
    return true;
  }
  // A caller that polls and never waits: the deadline holds all the same.
  if (!external_ && std::chrono::steady_clock::now() > overdue_) settle(0);
  const std::lock_guard lock(mutex_);
  return completed_;
}

bool SumcastWork::isSuccess() const {
  const std::lock_guard lock(mutex_);
  return completed_ && !exception_;
}

std::exception_ptr SumcastWork::exception() const {
  const std::lock_guard lock(mutex_);
  return exception_;
}

int SumcastWork::sourceRank() const {
  const std::lock_guard lock(mutex_);
  return source_;
}

std::vector<at::Tensor> SumcastWork::result() {
  const std::lock_guard lock(mutex_);
  return parts_.outputs;
}

void SumcastWork::synchronize() { wait(); }

bool SumcastWork::wait(std::chrono::milliseconds timeout) {
  settle(timeout.count() > 0 ? timeout.count() : -1);
  std::exception_ptr failure;
  {
    const std::lock_guard lock(mutex_);
    failure = completed_ ? exception_
                         : backend_error(parts_.name + ": not done after " +
                                         std::to_string(timeout.count()) + " ms");
  }
  if (failure) std::rethrow_exception(failure);
  return true;
}

void SumcastWork::abort() {
  std::shared_ptr<Group> group;
  {
    const std::lock_guard lock(mutex_);
    group = group_;
  }
  const auto handle = group ? group->handle() : nullptr;
  if (!handle) return;
  sumcast_group_abort(handle.get(), (parts_.name + " was aborted by this rank").c_str());
  if (!external_) settle(-1);
}

c10::intrusive_ptr<c10::ivalue::Future> SumcastWork::getFuture() {
  std::shared_ptr<Completion> completion;
  c10::intrusive_ptr<c10::ivalue::Future> future;
  {
    const std::lock_guard lock(mutex_);
    if (future_) return future_;
    future_ =
        c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    future = future_;
    completion = completion_;
    if (!completed_ && external_) return future;
  }
  if (completion) {
    completion->await(c10::intrusive_ptr<SumcastWork>::reclaim_copy(this));
  } else if (exception()) {
    future->setError(exception());
  } else {
    future->markCompleted(c10::IValue(parts_.outputs));
  }
  return future;
}

}  // namespace sumcast_torch

#include "staging.h"

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <utility>

#include "completion.h"
#include "lanes.h"
#include "staging_job.h"
#include "work.h"

namespace sumcast_torch {
namespace {

/// How long to sleep between looks at what the device does: an eighth of what it took so far.
constexpr std::chrono::microseconds kLookMin{20}, kLookMax{500};

/// Where the caller's stream is now.
std::shared_ptr<c10::Event> event_of_caller(c10::Device device, const std::string& call) {
  try {
    return event_behind(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  } catch (const std::exception& error) {
    std::rethrow_exception(backend_error(call + ": on " + device.str() + ": " + one_line(error)));
  }
}

/// One line, without the prefix that every error has.
std::string text_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    const std::string text = one_line(error);
    return text.rfind("sumcast: ", 0) == 0 ? text.substr(9) : text;
  }
}

}  // namespace

bool is_stageable(c10::Device device) {
  return !device.is_cpu() && !device.is_meta() && c10::impl::hasDeviceGuardImpl(device.type());
}

thread_local const Line* Line::here_ = nullptr;
thread_local uint32_t Line::piece_ = 0;

Line::Line(std::function<void(const std::string&)> abort_group,
           std::shared_ptr<Completion> completion)
    : abort_group_(std::move(abort_group)), completion_(std::move(completion)) {}

/// The thread holds this object, so it has ended, or is what runs this.
Line::~Line() {
  if (thread_.joinable()) thread_.detach();
}

c10::intrusive_ptr<c10d::Work> Line::submit(Cargo cargo) {
  auto job = std::make_shared<Job>();
  for (const Twins* list : {&cargo.reads, &cargo.writes}) {
    for (const at::Tensor& tensor : *list) {
      if (tensor.is_cpu()) continue;
      job->device = tensor.device();
    }
  }
  if (job->device) job->called = event_of_caller(*job->device, cargo.name);
  job->overdue = SteadyClock::now() + std::chrono::milliseconds(cargo.limit_ms);
  const auto abandon = [line = weak_from_this()](const std::string& why) {
    const auto self = line.lock();
    if (!self) return;
    self->abort_group_(why);
    self->fail_all(why);
    self->wait_until_ended(kFence);
  };
  job->work =
      c10::make_intrusive<StagedWork>(cargo.type, cargo.name, cargo.outputs, job->device, abandon);
  job->cargo = std::move(cargo);
  {
    const std::lock_guard lock(mutex_);
    throw_if_failed();
  }
  if (queue_ahead(*job)) job->work->promise(job->done);
  std::unique_lock lock(mutex_);
  if (stopping_) {
    lock.unlock();
    open_words(*job);  // No stream waits for a call that is refused.
    settle(*job);
    TORCH_CHECK(false, "sumcast: ", job->cargo.name, ": the group was shut down");
  }
  ++waiting_;
  ++open_;
  queue_.push_back(job);
  if (!thread_.joinable()) thread_ = std::thread([self = shared_from_this()] { self->serve(); });
  changed_.notify_all();
  return job->work;
}

bool Line::wait_until_begun(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit, [&] { return waiting_ == 0; });
}

bool Line::wait_until_left(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit, [&] { return open_ == 0 && leaving_.empty(); });
}

bool Line::wait_until_ended(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit, [&] { return open_ == 0; });
}

void Line::fail_all(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (!failed_) why_ = why;
  failed_ = true;
  changed_.notify_all();
}

void Line::stop() {
  std::thread thread;
  bool hangs = false;  // In a device that has not let go of a call; no more is asked of it.
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    thread.swap(thread_);
    hangs = open_ > 0;
    changed_.notify_all();
  }
  if (!thread.joinable()) return;
  if (is_here() || hangs) {
    thread.detach();
  } else {
    thread.join();
  }
}

/// Called with the lock held.
void Line::throw_if_failed() const {
  if (failed_) std::rethrow_exception(backend_error(why_));
}

void Line::serve() {
  here_ = this;
  const at::NoGradGuard guard;
  std::unique_lock lock(mutex_);
  for (;;) {
    if (queue_.empty()) {
      if (!leaving_.empty()) {
        const bool stopping = stopping_;
        lock.unlock();
        retire(stopping);
        lock.lock();
        if (queue_.empty() && !leaving_.empty() && !stopping_) changed_.wait_for(lock, kLookMax);
        continue;
      }
      if (stopping_) return;
      changed_.wait(lock);
      continue;
    }
    auto job = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    carry(job);
    lock.lock();
    job->all_begun = true;
    --waiting_;
    changed_.notify_all();
    lock.unlock();
    finish_if_over(job);
    job.reset();  // Dropping a tensor may need Python's lock.
    lock.lock();
  }
}

void Line::carry(const std::shared_ptr<Job>& job) {
  try {
    c10::OptionalDeviceGuard guard(job->device);
    if (job->ahead) {
      carry_ahead(job);
      return;
    }
    if (job->called) wait_for(*job, *job->called);
    if (job->device && job->cargo.divisible) {
      carry_pieces(job);
    } else {
      carry_whole(job);
    }
  } catch (const std::exception& error) {
    const bool is_ours = one_line(error).rfind("sumcast: ", 0) == 0;
    const std::string why = text_of(std::current_exception());
    fail(*job, is_ours ? std::current_exception() : backend_error(job->cargo.name + ": " + why));
    // The others may wait for what this rank will not do any more.
    abort_group_(why);
  }
}

/// Until the device has come to `event`, as where the caller's stream was. Looks and sleeps: what
/// waits in the device's own queues could not be called back by an abort.
void Line::wait_for(Job& job, c10::Event& event) {
  const auto started = SteadyClock::now();
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      throw_if_failed();
    }
    if (event.query()) return;
    const auto now = SteadyClock::now();
    if (now > job.overdue) {
      std::rethrow_exception(backend_error(
          job.cargo.name + ": the timeout passed: the device has not come to this call within " +
          std::to_string(job.cargo.limit_ms) + " ms"));
    }
    retire(false);
    const auto nap = std::clamp<SteadyClock::duration>((now - started) / 8, kLookMin, kLookMax);
    std::unique_lock lock(mutex_);
    if (!failed_) changed_.wait_for(lock, nap);
  }
}

void Line::make_twins(Job& job) {
  const auto twin_of = [&](const at::Tensor& tensor) {
    return job.device ? pinned(tensor.sizes(), tensor.scalar_type()) : tensor;
  };
  const Twins& reads = job.cargo.reads;
  job.host_reads.clear();
  job.host_writes.clear();
  for (const at::Tensor& tensor : reads) job.host_reads.push_back(twin_of(tensor));
  for (const at::Tensor& tensor : job.cargo.writes) {
    const auto same = std::find_if(reads.begin(), reads.end(),
                                   [&](const at::Tensor& one) { return one.is_same(tensor); });
    job.host_writes.push_back(same == reads.end() ? twin_of(tensor)
                                                  : job.host_reads[same - reads.begin()]);
  }
}

/// The one tensor of a call in pieces, as contiguous elements on the device.
void Line::flatten(Job& job) {
  const bool reads = !job.cargo.reads.empty();
  const at::Tensor whole = (reads ? job.cargo.reads : job.cargo.writes)[0].detach();
  const c10::StreamGuard guard(lane_of(job).in);
  job.flat = is_plain(whole) ? whole
             : reads         ? packed(whole)
                             : at::empty(whole.sizes(), whole.options());
  job.flat = job.flat.view({-1});
}

void Line::carry_whole(const std::shared_ptr<Job>& job) {
  make_twins(*job);
  for (size_t i = 0; job->device && i < job->cargo.reads.size(); ++i) {
    load(*job, job->cargo.reads[i], job->host_reads[i]);
  }
  if (!job->trips.empty()) job->trips.back().end->synchronize();
  begin(job, 0, job->host_reads, job->host_writes);
}

void Line::carry_pieces(const std::shared_ptr<Job>& job) {
  const bool reads = !job->cargo.reads.empty(), writes = !job->cargo.writes.empty();
  flatten(*job);
  const uint32_t count = job->pieces();
  struct Ready {
    at::Tensor twin;
    SharedEvent loaded;
  };
  std::deque<Ready> ready;
  job->slots.resize(count);
  uint32_t next = 0;
  for (uint32_t piece = 0; piece < count; ++piece) {
    // The next one is on its way in before this one leaves.
    for (; next < count && next <= piece + 1; ++next) {
      const auto slot = take_slot(*job, next == piece);
      if (!slot) break;
      job->slots[next] = slot;
      const at::Tensor part = job->piece_of(job->flat, next);
      const int64_t bytes = part.numel() * part.element_size();
      Ready one{slot->bytes.narrow(0, 0, bytes).view(part.scalar_type()), nullptr};
      if (reads) one.loaded = load(*job, part, one.twin);
      ready.push_back(std::move(one));
    }
    const Ready one = std::move(ready.front());
    ready.pop_front();
    if (one.loaded) {
      one.loaded->synchronize();
    } else if (const SharedEvent& left = job->slots[piece]->free) {
      left->synchronize();  // The library writes it next: the last result must have left it.
    }
    begin(job, piece, reads ? Twins{one.twin} : Twins{}, writes ? Twins{one.twin} : Twins{});
  }
}

void Line::begin(const std::shared_ptr<Job>& job, uint32_t piece, Twins reads, Twins writes) {
  {
    const std::lock_guard lock(mutex_);
    if (job->failure) std::rethrow_exception(job->failure);
    throw_if_failed();
  }
  piece_ = piece;
  c10::intrusive_ptr<c10d::Work> work;
  try {
    work = job->cargo.call(reads, writes);
  } catch (...) {
    piece_ = 0;
    throw;
  }
  piece_ = 0;
  {
    const std::lock_guard lock(mutex_);
    ++job->begun;
  }
  work->getFuture()->addCallback([self = shared_from_this(), job, piece, work,
                                  host = std::move(writes)](c10::ivalue::Future& future) {
    const at::NoGradGuard guard;
    self->ended(*job, piece, host, *work, future);
    self->finish_if_over(job);
  });
}

/// A piece, or the whole, has gone through the network. On a thread that completes works.
void Line::ended(Job& job, uint32_t piece, const Twins& host, const c10d::Work& work,
                 const c10::ivalue::Future& future) {
  bool lands = false;
  {
    const std::lock_guard lock(mutex_);
    if (future.hasError() && !job.failure) job.failure = future.exception_ptr();
    job.source = work.sourceRank();
    lands = !job.failure && !failed_ && job.device.has_value();
  }
  std::string trouble;
  try {
    if (lands) land(job, piece, host);
  } catch (const std::exception& error) {
    trouble = one_line(error);
  }
  if (!trouble.empty()) {
    fail(job, backend_error(job.cargo.name + ": " + trouble));
    abort_group_(trouble);
  }
  const std::lock_guard lock(mutex_);
  ++job.over;
  changed_.notify_all();
}

void Line::fail(Job& job, std::exception_ptr failure) {
  const std::lock_guard lock(mutex_);
  if (!job.failure) job.failure = std::move(failure);
  changed_.notify_all();
}

void Line::finish_if_over(const std::shared_ptr<Job>& job) {
  // Without it CUDA's events would make this thread a context on device 0.
  const c10::OptionalDeviceGuard guard(job->device);
  std::exception_ptr failure;
  {
    const std::lock_guard lock(mutex_);
    if (job->finished || !job->all_begun || job->over < job->begun) return;
    job->finished = true;
    if (failed_ && !job->failure) job->failure = backend_error(job->cargo.name + ": " + why_);
    failure = job->failure;
  }
  if (!failure && !job->ahead) {
    try {
      close(*job);
    } catch (const std::exception& error) {
      failure = backend_error(job->cargo.name + ": " + one_line(error));
    }
  }
  if (failure) {
    // Nobody need wait for a call that was queued ahead: the next one says what became of it.
    if (job->ahead) fail_all(text_of(failure));
    open_words(*job);
    settle(*job);
  }
  // Whoever waits for the end of all, as an abort does, finds the work ended.
  job->work->finish(failure, failure ? nullptr : job->done, job->source);
  std::optional<c10::Stream> stream;
  {
    const std::lock_guard lock(mutex_);
    for (auto& slot : job->slots) {
      if (slot) free_.push_back(std::move(slot));
    }
    if (job->done) stream = lanes_.at({job->device->index(), job->ahead}).out;
    --open_;
    leaving_.push_back(job);
    changed_.notify_all();
  }
  if (job->device) count_staged({.operations = 1});
  if (here_ == nullptr) {
    job->work->announce(stream);
    return;
  }
  completion_->announce([work = job->work, stream] {  // Not the job: its tensors go with it.
    const at::NoGradGuard guard;
    work->announce(stream);
  });
}

}  // namespace sumcast_torch

#include "staging.h"

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <utility>

#include "lanes.h"
#include "staged_work.h"
#include "work.h"

namespace sumcast_torch {
namespace {

using Clock = std::chrono::steady_clock;

/// Large enough that copies and the network reach their pace, small enough to overlap early; a
/// multiple of 256 elements of every type.
constexpr int64_t kPieceBytes = int64_t{4} << 20;
/// Pieces of a line that hold pinned memory: enough for one in each stage and as many behind it.
constexpr uint32_t kSlotsMax = 8;
/// How long to sleep between looks at what the device does: an eighth of what it took so far.
constexpr std::chrono::microseconds kLookMin{20}, kLookMax{500};

std::mutex totals_mutex;
StagingTotals totals;

std::shared_ptr<c10::Event> event_behind(const c10::Stream& stream) {
  auto event =
      std::make_shared<c10::Event>(stream.device_type(), c10::EventFlag::BACKEND_DEFAULT);
  event->record(stream);
  return event;
}

at::Tensor pinned(c10::IntArrayRef sizes, c10::ScalarType type) {
  return at::empty(sizes, at::TensorOptions(at::kCPU).dtype(type).pinned_memory(true));
}

bool is_plain(const at::Tensor& tensor) {
  return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

}  // namespace

StagingTotals staging_totals() {
  const std::lock_guard lock(totals_mutex);
  return totals;
}

bool is_stageable(c10::Device device) {
  return !device.is_cpu() && !device.is_meta() && c10::impl::hasDeviceGuardImpl(device.type());
}

/// A copy on its way, for the time that it takes.
struct Line::Trip {
  SharedEvent begin, end;
  uint64_t bytes;
  bool is_in;
};

/// Pinned memory of one piece.
struct Line::Slot {
  at::Tensor bytes;  // uint8[kPieceBytes]
  SharedEvent free;  // The device has read it by then.
};

struct Line::Job {
  Cargo cargo;
  c10::intrusive_ptr<StagedWork> work;
  std::optional<c10::Device> device;
  SharedEvent called;  // Where the caller's stream was.
  Clock::time_point overdue;
  Twins host_reads, host_writes;                // Unless it goes in pieces.
  at::Tensor flat;                              // Contiguous, on the device, if in pieces.
  std::vector<std::shared_ptr<Slot>> slots;     // By piece, if in pieces.
  std::vector<Trip> trips;
  // Guarded by the line's lock.
  std::exception_ptr failure;
  uint32_t begun = 0, over = 0;
  bool all_begun = false, finished = false;
  int source = -1;
  SharedEvent done;

  at::Tensor piece_of(const at::Tensor& whole, uint32_t piece) const {
    const int64_t first = piece * per_piece();
    return whole.narrow(0, first, std::min(per_piece(), whole.numel() - first));
  }
  int64_t per_piece() const { return kPieceBytes / flat.element_size(); }
};

thread_local bool Line::here_ = false;
thread_local uint32_t Line::piece_ = 0;

Line::Line(std::function<void(const std::string&)> abort_group)
    : abort_group_(std::move(abort_group)) {}

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
  if (job->device) {
    job->called =
        event_behind(c10::impl::VirtualGuardImpl(job->device->type()).getStream(*job->device));
  }
  job->overdue = Clock::now() + std::chrono::milliseconds(cargo.limit_ms);
  const auto abandon = [line = weak_from_this()](const std::string& why) {
    const auto self = line.lock();
    if (!self) return;
    self->abort_group_(why);
    self->fail_all(why);
    self->wait_until_ended(kFence);
  };
  job->work = c10::make_intrusive<StagedWork>(cargo.type, cargo.name, cargo.outputs, job->device,
                                              abandon);
  job->cargo = std::move(cargo);
  const std::lock_guard lock(mutex_);
  throw_if_failed();
  TORCH_CHECK(!stopping_, "sumcast: ", job->cargo.name, ": the group was shut down");
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
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    thread.swap(thread_);
    changed_.notify_all();
  }
  if (!thread.joinable()) return;
  if (here_) {
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
  here_ = true;
  const at::NoGradGuard guard;
  std::unique_lock lock(mutex_);
  for (;;) {
    if (queue_.empty()) {
      if (!leaving_.empty()) {
        lock.unlock();
        retire(true);
        lock.lock();
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
    wait_for_caller(*job);
    if (job->device && job->cargo.divisible) {
      carry_pieces(job);
    } else {
      carry_whole(job);
    }
  } catch (const std::exception& error) {
    const std::string why = one_line(error);
    fail(*job, why.rfind("sumcast: ", 0) == 0 ? std::current_exception()
                                              : backend_error(job->cargo.name + ": " + why));
    // The others may wait for what this rank will not do any more.
    abort_group_(why);
  }
}

/// Until the caller's stream has come to where the call was made. Looks and sleeps: what waits in
/// the device's own queues could not be called back by an abort.
void Line::wait_for_caller(Job& job) {
  const auto started = Clock::now();
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      throw_if_failed();
    }
    if (!job.called || job.called->query()) return;
    const auto now = Clock::now();
    if (now > job.overdue) {
      std::rethrow_exception(backend_error(
          job.cargo.name + ": the timeout passed: the device has not come to this call within " +
          std::to_string(job.cargo.limit_ms) + " ms"));
    }
    retire(false);
    const auto nap = std::clamp<Clock::duration>((now - started) / 8, kLookMin, kLookMax);
    std::unique_lock lock(mutex_);
    if (!failed_) changed_.wait_for(lock, nap);
  }
}

const Line::Lane& Line::lane_of(c10::Device device) {
  const std::lock_guard lock(mutex_);
  const auto found = lanes_.find(device.index());
  if (found != lanes_.end()) return found->second;
  const c10::impl::VirtualGuardImpl impl(device.type());
  return lanes_
      .emplace(device.index(),
               Lane{impl.getStreamFromGlobalPool(device), impl.getStreamFromGlobalPool(device)})
      .first->second;
}

/// Queues a copy to the host.
/// @param to  contiguous, pinned, of as many elements.
Line::SharedEvent Line::load(Job& job, const at::Tensor& from, const at::Tensor& to) {
  if (from.numel() == 0) return nullptr;
  const Lane& lane = lane_of(*job.device);
  const c10::StreamGuard guard(lane.in);
  const at::Tensor values = packed(from.detach());
  Trip trip{event_behind(lane.in), nullptr, bytes_of(values), true};
  at::Tensor(to).view(values.sizes()).copy_(values, /*non_blocking=*/true);
  const SharedEvent end = trip.end = event_behind(lane.in);
  const std::lock_guard lock(mutex_);
  job.trips.push_back(std::move(trip));
  return end;
}

/// Queues a copy back to the device.
Line::SharedEvent Line::store(Job& job, const at::Tensor& from, const at::Tensor& to) {
  if (to.numel() == 0) return nullptr;
  const Lane& lane = lane_of(*job.device);
  const c10::StreamGuard guard(lane.out);
  at::Tensor target = to.detach();
  const at::Tensor values = from.view(target.sizes());
  Trip trip{event_behind(lane.out), nullptr, bytes_of(values), false};
  if (is_plain(target)) {
    target.copy_(values, /*non_blocking=*/true);
  } else {
    at::Tensor there = at::empty(target.sizes(), target.options());
    there.copy_(values, /*non_blocking=*/true);
    target.copy_(there, /*non_blocking=*/true);
  }
  const SharedEvent end = trip.end = event_behind(lane.out);
  const std::lock_guard lock(mutex_);
  job.trips.push_back(std::move(trip));
  return end;
}

void Line::carry_whole(const std::shared_ptr<Job>& job) {
  const auto twin_of = [&](const at::Tensor& tensor) {
    return job->device ? pinned(tensor.sizes(), tensor.scalar_type()) : tensor;
  };
  for (const at::Tensor& tensor : job->cargo.reads) {
    job->host_reads.push_back(twin_of(tensor));
    if (job->device) load(*job, tensor, job->host_reads.back());
  }
  for (const at::Tensor& tensor : job->cargo.writes) {
    const auto same = std::find_if(
        job->cargo.reads.begin(), job->cargo.reads.end(),
        [&](const at::Tensor& one) { return one.is_same(tensor); });
    job->host_writes.push_back(same == job->cargo.reads.end()
                                   ? twin_of(tensor)
                                   : job->host_reads[same - job->cargo.reads.begin()]);
  }
  if (!job->trips.empty()) job->trips.back().end->synchronize();
  begin(job, 0, job->host_reads, job->host_writes);
}

void Line::carry_pieces(const std::shared_ptr<Job>& job) {
  const bool reads = !job->cargo.reads.empty(), writes = !job->cargo.writes.empty();
  const at::Tensor whole = (reads ? job->cargo.reads : job->cargo.writes)[0].detach();
  {
    const c10::StreamGuard guard(lane_of(*job->device).in);
    job->flat = is_plain(whole) ? whole
                : reads         ? packed(whole)
                                : at::empty(whole.sizes(), whole.options());
    job->flat = job->flat.view({-1});
  }
  const auto count = static_cast<uint32_t>(
      std::max<int64_t>(1, (whole.numel() + job->per_piece() - 1) / job->per_piece()));
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
    if (one.loaded) one.loaded->synchronize();
    begin(job, piece, reads ? Twins{one.twin} : Twins{}, writes ? Twins{one.twin} : Twins{});
  }
}

/// @param patient  waits for one, and throws if the line fails meanwhile; else nullptr.
std::shared_ptr<Line::Slot> Line::take_slot(Job& job, bool patient) {
  std::shared_ptr<Slot> slot;
  {
    std::unique_lock lock(mutex_);
    const auto is_there = [&] { return !free_.empty() || slots_ < kSlotsMax; };
    if (patient) changed_.wait(lock, [&] { return is_there() || failed_ || job.failure; });
    if (job.failure) std::rethrow_exception(job.failure);
    throw_if_failed();
    if (!is_there()) return nullptr;
    if (free_.empty()) {
      ++slots_;
    } else {
      slot = std::move(free_.back());
      free_.pop_back();
    }
  }
  if (!slot) {
    slot = std::make_shared<Slot>();
    try {
      slot->bytes = pinned({kPieceBytes}, at::kByte);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      --slots_;
      throw;
    }
  }
  if (slot->free) slot->free->block(lane_of(*job.device).in);
  return slot;
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

/// Queues the copies back, and lets the piece's memory go behind them.
void Line::land(Job& job, uint32_t piece, const Twins& host) {
  c10::OptionalDeviceGuard guard(job.device);
  if (job.slots.empty()) {
    for (size_t i = 0; i < host.size(); ++i) store(job, host[i], job.cargo.writes[i]);
    return;
  }
  SharedEvent stored;
  if (!host.empty()) stored = store(job, host[0], job.piece_of(job.flat, piece));
  const std::lock_guard lock(mutex_);
  if (stored) job.slots[piece]->free = std::move(stored);
  free_.push_back(std::exchange(job.slots[piece], nullptr));
  changed_.notify_all();
}

void Line::fail(Job& job, std::exception_ptr failure) {
  const std::lock_guard lock(mutex_);
  if (!job.failure) job.failure = std::move(failure);
  changed_.notify_all();
}

/// The last copy back, if it went in pieces that were packed; then the event behind all of them.
void Line::close(Job& job) {
  if (!job.device || job.cargo.writes.empty()) return;
  const c10::OptionalDeviceGuard guard(job.device);
  const Lane& lane = lane_of(*job.device);
  const c10::StreamGuard stream(lane.out);
  if (job.flat.defined()) {
    const at::Tensor target = job.cargo.writes[0].detach();
    if (!is_plain(target)) at::Tensor(target).copy_(job.flat.view(target.sizes()), true);
  }
  job.done = event_behind(lane.out);
}

/// What was queued on the device is waited for: whoever gets the error has the tensors to himself.
void Line::settle_device(const Job& job) {
  if (!job.device) return;
  std::optional<Lane> lane;
  {
    const std::lock_guard lock(mutex_);
    const auto found = lanes_.find(job.device->index());
    if (found != lanes_.end()) lane = found->second;
  }
  if (!lane) return;
  const c10::impl::VirtualGuardImpl impl(job.device->type());
  try {
    impl.synchronizeStream(lane->in);
    impl.synchronizeStream(lane->out);
  } catch (const std::exception&) {
    return;  // A device that fails here copies no more; the job has its error already.
  }
}

void Line::finish_if_over(const std::shared_ptr<Job>& job) {
  std::exception_ptr failure;
  {
    const std::lock_guard lock(mutex_);
    if (job->finished || !job->all_begun || job->over < job->begun) return;
    job->finished = true;
    if (failed_ && !job->failure) job->failure = backend_error(job->cargo.name + ": " + why_);
    failure = job->failure;
  }
  if (!failure) {
    try {
      close(*job);
    } catch (const std::exception& error) {
      failure = backend_error(job->cargo.name + ": " + one_line(error));
    }
  }
  if (failure) settle_device(*job);
  std::optional<c10::Stream> stream;
  {
    const std::lock_guard lock(mutex_);
    for (auto& slot : job->slots) {
      if (slot) free_.push_back(std::move(slot));
    }
    if (job->done) stream = lanes_.at(job->device->index()).out;
    --open_;
    leaving_.push_back(job);
    changed_.notify_all();
  }
  {
    const std::lock_guard lock(totals_mutex);
    totals.operations += job->device ? 1 : 0;
  }
  job->work->finish(failure, failure ? nullptr : job->done, stream, job->source);
}

/// Lets go of the oldest call that is over, once the device is done with its memory.
/// @param patient  waits for that.
void Line::retire(bool patient) {
  std::shared_ptr<Job> job;
  {
    const std::lock_guard lock(mutex_);
    if (leaving_.empty()) return;
    job = leaving_.front();
  }
  StagingTotals made;
  try {
    if (job->done && !patient && !job->done->query()) return;
    if (job->done) job->done->synchronize();
    for (const Trip& trip : job->trips) {
      (trip.is_in ? made.bytes_in : made.bytes_out) += trip.bytes;
      (trip.is_in ? made.seconds_in : made.seconds_out) +=
          trip.begin->elapsedTime(*trip.end) / 1000;
    }
  } catch (const std::exception&) {
    // No clock, or the device has failed, which the next call on it says.
  }
  {
    const std::lock_guard lock(mutex_);
    leaving_.pop_front();  // Only this thread does.
  }
  const std::lock_guard lock(totals_mutex);
  totals.bytes_in += made.bytes_in;
  totals.bytes_out += made.bytes_out;
  totals.seconds_in += made.seconds_in;
  totals.seconds_out += made.seconds_out;
}

}  // namespace sumcast_torch

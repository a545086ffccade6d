// What a line does with the device: streams, copies, and the memory between them.
#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

#include "lanes.h"
#include "staging_job.h"

namespace sumcast_torch {
namespace {

/// Pieces of a line that hold pinned memory: enough for one in each stage and as many behind it.
constexpr uint32_t kSlotsMax = 8;

std::mutex totals_mutex;
StagingTotals totals;

}  // namespace

StagingTotals staging_totals() {
  const std::lock_guard lock(totals_mutex);
  return totals;
}

void count_staged(const StagingTotals& more) {
  const std::lock_guard lock(totals_mutex);
  totals.operations += more.operations;
  totals.bytes_in += more.bytes_in;
  totals.bytes_out += more.bytes_out;
  totals.seconds_in += more.seconds_in;
  totals.seconds_out += more.seconds_out;
}

std::shared_ptr<c10::Event> event_behind(const c10::Stream& stream) {
  auto event = std::make_shared<c10::Event>(stream.device_type(), c10::EventFlag::BACKEND_DEFAULT);
  event->record(stream);
  return event;
}

at::Tensor pinned(c10::IntArrayRef sizes, c10::ScalarType type) {
  return at::empty(sizes, at::TensorOptions(at::kCPU).dtype(type).pinned_memory(true));
}

bool is_plain(const at::Tensor& tensor) {
  return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

/// Streams for calls that are queued ahead are others: nothing that waits for the host shares a
/// stream with what does not.
const Line::Lane& Line::lane_of(const Job& job) {
  const std::lock_guard lock(mutex_);
  const std::pair key(job.device->index(), job.ahead);
  const auto found = lanes_.find(key);
  if (found != lanes_.end()) return found->second;
  const c10::impl::VirtualGuardImpl impl(job.device->type());
  // Devices have few streams and deal them in turn, to users too; hardly anyone asks for urgent
  // ones.
  const Lane made{impl.getStreamFromGlobalPool(*job.device, true),
                  impl.getStreamFromGlobalPool(*job.device, true)};
  return lanes_.emplace(key, made).first->second;
}

/// Queues a copy to the host.
/// @param to  contiguous, pinned, of as many elements.
Line::SharedEvent Line::load(Job& job, const at::Tensor& from, const at::Tensor& to) {
  if (from.numel() == 0) return nullptr;
  const Lane& lane = lane_of(job);
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
  const Lane& lane = lane_of(job);
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
  if (slot->free) slot->free->block(lane_of(job).in);
  return slot;
}

/// Queues the copies back, and lets the piece's memory go behind them.
void Line::land(Job& job, uint32_t piece, const Twins& host) {
  if (job.ahead) {
    open_word(job, piece);
    return;
  }
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

/// The last copy back, if it went in pieces that were packed; then the event behind all of them.
void Line::close(Job& job) {
  if (!job.device || job.cargo.writes.empty()) return;
  const c10::OptionalDeviceGuard guard(job.device);
  const Lane& lane = lane_of(job);
  const c10::StreamGuard stream(lane.out);
  if (job.flat.defined()) {
    const at::Tensor target = job.cargo.writes[0].detach();
    if (!is_plain(target)) at::Tensor(target).copy_(job.flat.view(target.sizes()), true);
  }
  job.done = event_behind(lane.out);
}

/// What was queued of it on the device is waited for: whoever gets the error has the tensors to
/// himself. Of this call only, which waits for no later one.
void Line::settle(Job& job) {
  std::vector<Trip> trips;
  {
    const std::lock_guard lock(mutex_);
    trips = job.trips;
  }
  try {
    for (const Trip& trip : trips) trip.end->synchronize();
    if (job.done) job.done->synchronize();
  } catch (const std::exception&) {
    return;  // A device that fails here copies no more; the job has its error already.
  }
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
  const c10::OptionalDeviceGuard guard(job->device);
  try {
    if (job->done && !patient && !job->done->query()) return;
    if (job->done) job->done->synchronize();
    for (const Trip& trip : job->trips) {
      (trip.is_in ? made.bytes_in : made.bytes_out) += trip.bytes;
    }
    for (const Trip& trip : job->trips) {
      (trip.is_in ? made.seconds_in : made.seconds_out) +=
          trip.begin->elapsedTime(*trip.end) / 1000;
    }
  } catch (const std::exception&) {
    // No clock, or the device has failed, which the next call on it says.
  }
  {
    const std::lock_guard lock(mutex_);
    leaving_.pop_front();  // Only this thread does.
    changed_.notify_all();
  }
  count_staged(made);
}

}  // namespace sumcast_torch

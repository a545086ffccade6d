// Calls whose every step on the device is queued when they are made.
//
// The copies back are queued behind words in pinned memory, which the host writes when the network
// is done with a piece. The event behind them exists before the call returns, so wait() makes the
// caller's stream wait for it and blocks nobody. Everything that a stream waits for was queued
// before the wait: streams that share a queue of the hardware cannot stop each other.
//
//     in     wait for the caller   copy 0   copy 1   copy 2
//     out    wait for the caller   wait for word 0   copy back 0   wait for word 1   copy back 1 ..
//     host   copy 0 has come: network, word 0 := 1;   copy 1 has come: ..
//
// The price is in docs/adr/0014: when such a call fails, its words are written all the same, for no
// stream may stop for ever, and what is copied back is of no worth.
#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "gate.h"
#include "lanes.h"
#include "staging_job.h"
#include "work.h"

namespace sumcast_torch {
namespace {

/// nullptr: the device does not say.
void* native_handle(const c10::Stream& stream) {
  try {
    return c10::impl::VirtualGuardImpl(stream.device_type()).getStreamNativeHandle(stream);
  } catch (const std::exception&) {
    return nullptr;
  }
}

/// nullptr: the device has failed, and does nothing more.
std::shared_ptr<c10::Event> behind_all(const c10::Stream& stream) {
  try {
    return event_behind(stream);
  } catch (const std::exception&) {
    return nullptr;
  }
}

}  // namespace

/// On the caller's thread. @return false: this device cannot, and the line performs the call.
bool Line::queue_ahead(Job& job) {
  if (!job.device || !job.cargo.may_queue_ahead || !is_queueing_ahead()) return false;
  const StreamGate gate = stream_gate_of(job.device->type());
  if (gate == nullptr) return false;
  const at::NoGradGuard no_grad;
  const c10::DeviceGuard guard(*job.device);
  const std::lock_guard in_turn(ahead_mutex_);
  job.ahead = true;
  const Lane& lane = lane_of(job);
  void* const out = native_handle(lane.out);
  if (out == nullptr) {
    job.ahead = false;
    return false;
  }
  job.called->block(lane.in);
  const uint32_t pieces = lay_out_ahead(job);
  const bool writes = !job.cargo.writes.empty();
  // One word more, which is there already: can this device do it?
  job.words = pinned({pieces + 1}, at::kInt).zero_();
  open_word(job, pieces);
  if (writes && gate(out, job.word(pieces)) != 0) {
    job.ahead = false;
    return false;
  }
  job.called->block(lane.out);
  try {
    for (uint32_t piece = 0; piece < pieces; ++piece) load_ahead(job, piece);
    for (uint32_t piece = 0; writes && piece < pieces; ++piece) {
      const int code = gate(out, job.word(piece));
      TORCH_CHECK(code == 0, "the device's stream refuses to wait for the host (", code, ")");
      store_ahead(job, piece);
    }
    close(job);
    if (!writes) job.done = event_behind(lane.in);
  } catch (const std::exception& error) {
    open_words(job);
    job.done = behind_all(lane.out);
    settle(job);
    std::rethrow_exception(backend_error(job.cargo.name + ": " + one_line(error)));
  }
  return true;
}

/// Twins of everything, and where pieces lie in them. @return how many pieces.
uint32_t Line::lay_out_ahead(Job& job) {
  if (!job.cargo.divisible) {
    make_twins(job);
    return 1;
  }
  flatten(job);
  job.host_flat = pinned(job.flat.sizes(), job.flat.scalar_type());
  return job.pieces();
}

void Line::load_ahead(Job& job, uint32_t piece) {
  SharedEvent last;
  if (job.cargo.divisible) {
    if (!job.cargo.reads.empty()) {
      last = load(job, job.piece_of(job.flat, piece), job.piece_of(job.host_flat, piece));
    }
  } else {
    for (size_t i = 0; i < job.cargo.reads.size(); ++i) {
      const auto one = load(job, job.cargo.reads[i], job.host_reads[i]);
      if (one) last = one;
    }
  }
  job.loaded.push_back(last ? last : job.called);
}

void Line::store_ahead(Job& job, uint32_t piece) {
  if (job.cargo.divisible) {
    if (job.cargo.writes.empty()) return;
    store(job, job.piece_of(job.host_flat, piece), job.piece_of(job.flat, piece));
    return;
  }
  for (size_t i = 0; i < job.cargo.writes.size(); ++i) {
    store(job, job.host_writes[i], job.cargo.writes[i]);
  }
}

/// On the line's thread: the network's part.
void Line::carry_ahead(const std::shared_ptr<Job>& job) {
  for (uint32_t piece = 0; piece < job->loaded.size(); ++piece) {
    wait_for(*job, *job->loaded[piece]);
    if (job->cargo.divisible) {
      const Twins twin{job->piece_of(job->host_flat, piece)};
      begin(job, piece, job->cargo.reads.empty() ? Twins{} : twin,
            job->cargo.writes.empty() ? Twins{} : twin);
    } else {
      begin(job, piece, job->host_reads, job->host_writes);
    }
  }
}

void Line::open_word(Job& job, uint32_t piece) {
  __atomic_store_n(job.word(piece), 1, __ATOMIC_RELEASE);
}

void Line::open_words(Job& job) {
  for (uint32_t piece = 0; job.words.defined() && piece < job.words.numel(); ++piece) {
    open_word(job, piece);
  }
}

}  // namespace sumcast_torch

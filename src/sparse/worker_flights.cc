// Rounds under way at a worker (flight.h): begun, waited for, and what comes of them.
#include <cstring>
#include <utility>

#include "sparse/worker.h"

namespace sumcast::sparse {

Worker::FlightPtr Worker::new_flight(Task task, uint32_t flags) {
  FlightPtr flight = spare_.empty() ? std::make_unique<Flight>() : std::move(spare_.back());
  if (!spare_.empty()) spare_.pop_back();
  flight->ground();
  flight->task = task;
  flight->flags = flags;
  flight->step = 0;
  flight->rate = 0;
  flight->marks = 0;
  flight->has_pushed = false;
  flight->carries_flush = flight->is_landed = flight->is_applied = false;
  flight->operation = 0;
  flight->slots = 0;
  flight->dense.clear();
  flight->plans.resize(options_.servers);
  flight->acks.resize(options_.servers);
  flight->receipts.resize(options_.servers);
  const size_t parts = size_t{options_.servers} * options_.segments;
  flight->bodies.resize(parts);
  for (Batch* const batch : {&flight->pushed, &flight->pulled}) {
    batch->keys = 0;
    batch->parts.resize(parts);
    batch->rows.resize(parts);
    batch->encoded.resize(parts);
    for (Part& part : batch->parts) part.keys.clear(), part.places.clear();
    batch->hot_slots.clear(), batch->hot_places.clear();
    batch->has_copies = batch->is_listed = false;
  }
  return flight;
}

/// Bodies are written.
///
/// @param at_once  nobody will wait for it soon.
Result<void> Worker::launch(FlightPtr flight, bool at_once) {
  const uint64_t before = entered_;
  if (auto moved = go_back_if_due(); !moved) return moved;
  if (entered_ != before) flight->pushed.is_listed = false;
  flight->number = launched_++;
  if (flight->task == Task::kStep && std::exchange(is_fresh_, false)) flight->flags |= kFresh;
  flights_.push_back(std::move(flight));
  auto posted = post(*flights_.back(), at_once);
  return posted ? posted : recover(posted.error());
}

/// Flights land in order, each an operation; in an asynchronous job only what all wait for is one.
Result<void> Worker::land(Flight& flight) {
  if (flight.is_landed) return {};
  for (;;) {
    auto done = wait_for(flight);
    if (done) break;
    if (auto recovered = recover(done.error()); !recovered) return recovered;
  }
  if (seat_ != nullptr) seat_->confirm();  // All servers have committed it.
  flight.is_landed = true;
  heed_marks(flight);
  if (!options_.asynchronous || flight.task == Task::kSave) flight.operation = ++completed_;
  if (flight.carries_flush) {
    hot_->end_flush();
    flush_due_ = flush_sent_ = flush_carried_ = false;
  }
  return {};
}

Result<void> Worker::land_all() {
  for (const FlightPtr& flight : flights_) {
    if (auto landed = land(*flight); !landed) return landed;
  }
  return {};
}

/// Its step becomes visible here.
void Worker::apply(Flight& flight) {
  flight.is_applied = true;
  if (flight.step == 0) return;
  counters_.hot_pushed += flight.pushed.hot_slots.size();
  for (const Part& part : flight.pushed.parts) counters_.cold_pushed += part.keys.size();
  if (flight.slots != 0) {
    counters_.hot_moved += hot_->apply(flight.hot_sums, steps_before_ + flight.step, flight.rate);
  }
  if (flight.dense.empty()) return;
  if (take_dense_) {
    take_dense_(flight.dense_sum);
  } else if (dense_out_.size() == flight.dense_sum.size()) {
    std::memcpy(dense_out_.data(), flight.dense_sum.data(), dense_out_.size_bytes());
  }
}

/// As they are now, and as they are read (P26); others' sums may move the table before the caller
/// is done with them.
void Worker::copy_hot_rows(Batch& batch) const {
  if (!hot_ || batch.has_copies) return;
  const size_t width = options_.shape.width;
  batch.hot_rows.resize(batch.hot_slots.size() * width);
  std::vector<std::byte> scratch(row_codec_.row_bytes());
  for (size_t i = 0; i < batch.hot_slots.size(); ++i) {
    row_codec_.round(hot_->row(batch.hot_slots[i]), scratch.data(),
                     batch.hot_rows.data() + i * width);
  }
  batch.has_copies = true;
}

/// All steps are visible afterwards. Batches whose turn comes later keep what they asked for (P20).
Result<void> Worker::show_all() {
  if (auto landed = land_all(); !landed) return landed;
  if (!flights_.empty() && has_current_) {
    copy_hot_rows(current_);
    place_rows();
  }
  for (const FlightPtr& flight : flights_) {
    if (flight->is_applied) continue;
    apply(*flight);
    copy_hot_rows(flight->pulled);
  }
  return {};
}

/// The batch that was asked for first becomes the current one.
Result<void> Worker::take_turn() {
  Flight& flight = *flights_.front();
  if (auto landed = land(flight); !landed) return landed;
  if (!flight.is_applied) apply(flight);
  clock_.on_turn();
  std::swap(current_, flight.pulled);
  has_current_ = true;
  if (!row_codec_.is_exact()) copy_hot_rows(current_);
  for (const Part& part : current_.parts) counters_.cold_pulled += part.keys.size();
  place_rows();
  FlightPtr done = std::move(flights_.front());
  flights_.pop_front();
  retire(std::move(done));
  return {};
}

/// A round by itself: all before it are visible.
Result<Worker::FlightPtr> Worker::run(FlightPtr flight) {
  write_bodies(*flight, nullptr);
  if (auto begun = launch(std::move(flight), false); !begun) return fail(begun.error());
  if (auto landed = land(*flights_.back()); !landed) return fail(landed.error());
  FlightPtr done = std::move(flights_.back());
  flights_.pop_back();
  return done;
}

void Worker::retire(FlightPtr flight) {
  if (seat_ != nullptr && flight->operation != 0) {
    past_.push_back({flight->operation, std::move(flight), {}});
  } else {
    spare_.push_back(std::move(flight));
  }
  forget_past();
}

/// Nobody is further behind than this.
void Worker::forget_past() {
  std::erase_if(past_, [this](Past& past) {
    if (past.operation + options_.staleness + 1 > completed_) return false;
    if (past.flight) spare_.push_back(std::move(past.flight));
    return true;
  });
}

}  // namespace sumcast::sparse

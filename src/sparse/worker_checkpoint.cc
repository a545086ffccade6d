// Checkpoints, as workers write them (P18): servers write rows, worker 0 what binds them together.
//
//   all workers   flush hot rows, tell the servers           each server writes its part
//   worker 0      collects the receipts, writes the state, then the manifest: from here it stands
//   all workers   hear from worker 0 whether it does
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "sparse/worker.h"

namespace sumcast::sparse {
namespace {

/// What worker 0 tells the others.
struct Outcome {
  uint32_t code = 0;  ///< An ErrorCode; 0: the checkpoint stands.
  std::array<char, 508> what{};
};
static_assert(sizeof(Outcome) == 512);

/// @param what  of a peer: it need not end.
Result<void> as_result(uint32_t code, std::span<const char> what) {
  if (code == 0) return {};
  return fail(static_cast<ErrorCode>(code),
              std::string(what.begin(), std::ranges::find(what, '\0')));
}

}  // namespace

/// Receipts have come to worker 0 alone.
Result<void> Worker::commit_save(const Flight& ordered, std::string_view state) {
  const SaveOrder& order = ordered.order;
  Manifest now;
  if (order.base != 0) now = *manifest_;
  now.number = order.number;
  now.steps = steps_before_ + clock_.given();
  now.shape = options_.shape;
  SavedPart& part = now.parts.emplace_back();
  part.number = order.number;
  part.full = order.base == 0;
  Result<void> outcome;
  for (uint32_t server = 0; server < options_.servers; ++server) {
    const SaveReceipt& receipt = ordered.receipts[server];
    part.files.push_back(
        {rows_name(order.number, server), receipt.rows, receipt.bytes, receipt.crc});
    if (outcome) outcome = as_result(receipt.code, receipt.what);
  }
  const std::string& directory = options_.checkpoint_directory;
  now.state.name = state_name(order.number);
  if (outcome) {
    auto saved = write_state(directory, order.number, state);
    if (saved) {
      now.state = *saved;
    } else {
      outcome = fail(saved.error());
    }
  }
  if (!outcome) {
    remove_outdated(directory, now, manifest_.value_or(Manifest()));
    return outcome;
  }
  // Whether it stands is not known if this fails: so all files stay.
  if (auto written = write_manifest(directory, now); !written) return written;
  if (manifest_) remove_outdated(directory, *manifest_, now);
  manifest_ = std::move(now);
  return {};
}

/// Worker 0's outcome becomes everybody's.
Result<void> Worker::share_outcome(const Result<void>& outcome) {
  Outcome told;
  if (!outcome) {
    told.code = static_cast<uint32_t>(outcome.error().code);
    const std::string& what = outcome.error().what;
    std::copy_n(what.begin(), std::min(what.size(), told.what.size() - 1), told.what.begin());
  }
  if (auto done = broadcast(&told, sizeof told, ElementType::kU8); !done) return done;
  return as_result(told.code, told.what);
}

Result<void> Worker::save(bool full, std::string_view state) {
  if (failed_) return fail(*failed_);
  if (options_.checkpoint_directory.empty()) {
    return fail(ErrorCode::kInvalidArgument, "sparse: no checkpoint directory was given");
  }
  if (auto caught_up = show_all(); !caught_up) return fail_with(caught_up.error());
  if (auto flushed = flush(); !flushed) return flushed;
  FlightPtr flight = new_flight(Task::kSave);
  flight->order.number = ++last_number_;
  // A part built upon others has records like theirs.
  const bool alike = manifest_ && manifest_->shape.life == options_.shape.life;
  flight->order.base = !full && alike ? manifest_->number : 0;
  flight->order.standing = manifest_ ? manifest_->number : 0;
  auto ordered = run(std::move(flight));
  if (!ordered) return fail_with(ordered.error());
  Result<void> outcome;
  if (context_->rank() == 0) outcome = commit_save(**ordered, state);
  retire(std::move(*ordered));
  auto shared = share_outcome(outcome);
  if (shared) ++counters_.checkpoints;
  return shared;
}

}  // namespace sumcast::sparse

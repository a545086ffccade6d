// The course of an operation over time: which rank waits for what, and what ends it early.
#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"
#include "host/team_run.h"
#include "numeric/stream_copy.h"
#include "runtime/clock.h"

namespace sumcast::host {
namespace {

/// Pieces under way; measured (docs/perf-notes.md).
constexpr uint32_t kBuffersAlone = 8;
constexpr uint32_t kBuffersNet = 10;
/// Pieces between copying in and adding, and between adding and copying out.
constexpr uint64_t kLag = 2;
constexpr uint64_t kNetLag = 3;
static_assert(2 * kLag < kBuffersAlone && 2 * kLag + kNetLag < kBuffersNet);

/// How long an abort may take to come back from the coordinator before the team ends itself.
constexpr Duration kAbortPatience = std::chrono::seconds(2);

}  // namespace

Shape Team::shape_for(uint32_t local_ranks, uint32_t hosts) {
  return {local_ranks, hosts > 1 ? kBuffersNet : kBuffersAlone, kPieceBytes};
}

Team::Team(Segment segment, Layout layout, std::unique_ptr<Uplink> uplink, TeamObserver& observer,
           Duration look)
    : segment_(std::move(segment)),
      layout_(std::move(layout)),
      uplink_(std::move(uplink)),
      observer_(observer),
      looking_(looking_for(segment_.shape().ranks, usable_cores(), look)) {
  for (auto& stage : expected_) stage.assign(segment_.shape().buffers, 0);
}

Result<void> Team::run(const TeamCall& call) {
  if (const auto error = segment_.aborted()) return fail(*error);
  Run run(*this, call);
  Result<void> outcome = run.all();
  if (run.streams) numeric::stream_fence();
  return outcome;
}

Team::Run::Run(Team& owner, const TeamCall& one)
    : team(owner),
      call(one),
      what(one.what),
      course(one.what, owner.layout_, owner.segment_.shape().piece_bytes),
      me(owner.layout_.my_seat()),
      seats(owner.segment_.shape().ranks),
      first_piece(owner.next_piece_),
      net_lag(course.net ? kNetLag : 0),
      limit(one.deadline),
      streams(one.in != one.out && tensor_bytes(course.part_lanes) >= numeric::kStreamBytesMin),
      skips_own(course.folding == Folding::kSlices && course.parts == 1) {
  team.next_piece_ += course.pieces;
}

/// Step s: piece s in, an earlier one added, one before that on its way, one before that out. What
/// a step waits for is what neighbours did kLag steps ago.
Result<void> Team::Run::all() {
  const uint64_t out_lag = 2 * kLag + net_lag;
  for (uint64_t s = 0; s < course.pieces + out_lag; ++s) {
    const auto due = [&](uint64_t lag) { return s >= lag && s - lag < course.pieces; };
    Result<void> done;
    if (due(0)) done = begin(s);
    if (done && due(kLag)) done = add(s - kLag);
    if (done && due(2 * kLag)) done = post(s - 2 * kLag);
    if (done && due(out_lag)) done = collect(s - out_lag);
    if (done && due(out_lag)) done = finish(s - out_lag);
    if (!done) return done;
  }
  return {};
}

Result<void> Team::Run::begin(uint64_t piece) {
  const uint32_t b = buffer(piece);
  if (auto r = wait(Stage::kOut, piece); !r) return r;  // All are done with what was here before.
  const auto expect = [&](Stage stage, uint32_t arrivals) {
    team.expected_[static_cast<size_t>(stage)][b] += arrivals;
  };
  expect(Stage::kIn, seats);
  if (course.folding == Folding::kSlices) expect(Stage::kFold, seats);
  if (course.net) expect(Stage::kNet, 1);
  expect(Stage::kOut, seats);
  if (piece == 0) {
    team.segment_.record(b, me) = Record{wire::fingerprint_of(what), wire::digest_of(what)};
  }
  copy_in(piece);
  arrive(team.segment_.turn(Stage::kIn, b), team.expected_[static_cast<size_t>(Stage::kIn)][b]);
  return {};
}

Result<void> Team::Run::add(uint64_t piece) {
  // All have come to the first piece before anything is stored: that is where they compare.
  if (auto r = wait(Stage::kIn, piece); !r) return r;
  if (piece == 0) {
    if (auto agreed = check_agreement(); !agreed) return agreed;
  }
  fold(piece);
  if (course.folding == Folding::kSlices) {
    const uint32_t b = buffer(piece);
    arrive(team.segment_.turn(Stage::kFold, b),
           team.expected_[static_cast<size_t>(Stage::kFold)][b]);
  }
  return {};
}

/// The leader sends the host's contribution to the other leaders.
Result<void> Team::Run::post(uint64_t piece) {
  if (!team.uplink_) return {};
  if (course.folding == Folding::kSlices) {
    if (auto r = wait(Stage::kFold, piece); !r) return r;
  }
  const Lanes lanes = course.lanes(piece);
  std::byte* sum = team.segment_.sum(buffer(piece));
  wire::OperationDescriptor one = what;
  one.type = course.carried;
  one.reduction = course.net_reduction;
  one.count = lanes.count;
  one.root =
      static_cast<uint16_t>(what.root < team.layout_.size() ? team.layout_.host_of(what.root) : 0);
  one.part_of = wire::fingerprint_of(what);
  const std::byte* in = sum;
  std::byte* out = sum;
  const uint64_t mine = carried_bytes(lanes.count) * team.layout_.seats_max();
  switch (what.kind) {
    case wire::OperationKind::kAllGather:
      one.count = lanes.count * team.layout_.seats_max();
      in = sum + mine * team.layout_.my_host();
      break;
    case wire::OperationKind::kReduceScatter:
      one.count = lanes.count * team.layout_.seats_max();
      out = sum + mine * team.layout_.my_host();
      break;
    default:
      break;
  }
  auto posted = team.uplink_->post(one, in, out);
  if (posted) return {};
  team.abort(posted.error());
  return fail(why());
}

Result<void> Team::Run::collect(uint64_t piece) {
  if (!team.uplink_) return {};
  for (;;) {
    auto done = team.uplink_->collect(limit);
    if (!done) {
      team.abort(done.error());
      return fail(why());
    }
    if (*done) break;
    if (auto r = overdue(); !r) return r;
  }
  const uint32_t b = buffer(piece);
  arrive(team.segment_.turn(Stage::kNet, b), team.expected_[static_cast<size_t>(Stage::kNet)][b]);
  return {};
}

Result<void> Team::Run::finish(uint64_t piece) {
  if (course.net) {
    if (auto r = wait(Stage::kNet, piece); !r) return r;
  } else if (course.folding == Folding::kSlices) {
    if (auto r = wait(Stage::kFold, piece); !r) return r;
  }
  copy_out(piece);
  const uint32_t b = buffer(piece);
  arrive(team.segment_.turn(Stage::kOut, b), team.expected_[static_cast<size_t>(Stage::kOut)][b]);
  return {};
}

Result<void> Team::Run::wait(Stage stage, uint64_t piece) {
  const uint32_t b = buffer(piece);
  return wait_until(team.segment_.turn(stage, b), team.expected_[static_cast<size_t>(stage)][b]);
}

Result<void> Team::Run::wait_until(Turn& turn, uint32_t target) {
  for (;;) {
    const Waited waited = wait_for(turn, target, limit, team.looking_);
    if (waited == Waited::kReached) return {};
    if (waited == Waited::kAborted) return fail(why());
    if (auto r = overdue(); !r) return r;
  }
}

Result<void> Team::Run::overdue() {
  if (!reported) {
    reported = true;
    limit = runtime::monotonic_now() + kAbortPatience;
    team.observer_.on_overdue(what);
    return {};
  }
  team.abort({ErrorCode::kTimeout, fmt::format("{} #{} timed out, and the coordinator does not "
                                               "answer",
                                               wire::describe(what), what.sequence)});
  return fail(why());
}

/// All local ranks are at their first piece and say what they run: nothing has been stored yet.
Result<void> Team::Run::check_agreement() {
  const uint32_t b = buffer(0);
  const Record mine = team.segment_.record(b, 0);
  for (uint32_t seat = 1; seat < seats; ++seat) {
    const Record& other = team.segment_.record(b, seat);
    if (other.fingerprint == mine.fingerprint) continue;
    team.observer_.on_mismatch(0, mine.digest, seat, other.digest);
    // The coordinator asks both what they run and ends the group with both answers.
    limit = std::min(limit, runtime::monotonic_now() + kAbortPatience);
    Turn& turn = team.segment_.turn(Stage::kFold, b);
    const uint32_t never = turn.word.load() / 2 + (1U << 29);
    if (wait_for(turn, never, limit) != Waited::kAborted) {
      team.abort({ErrorCode::kMismatch,
                  fmt::format("the ranks of this host run different operations as #{} (this rank: "
                              "{}), and the coordinator does not answer",
                              what.sequence, wire::describe(what))});
    }
    return fail(why());
  }
  return {};
}

Error Team::Run::why() const {
  return team.segment_.aborted().value_or(
      Error{ErrorCode::kInternal, "the team was aborted without a reason"});
}

}  // namespace sumcast::host

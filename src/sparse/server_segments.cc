// What a server does with a segment of a round when all workers' parts of it are there.
#include <fmt/format.h>

#include "numeric/codec.h"
#include "sparse/server_desk.h"

namespace sumcast::sparse {

bool Server::is_mine(uint64_t key, uint32_t segment) const {
  const uint64_t mixed = table::mix_key(key);
  return server_of(mixed, options_) == context_->rank() - options_.workers &&
         segment_of(mixed, options_) == segment;
}

Server::Paper& Server::paper(uint32_t worker, uint32_t round) {
  return desks_[worker]->papers[book_.place_of(round)];
}

Result<void> Server::answer(uint32_t round, uint32_t segment) {
  const Plan& first = paper(0, round).plan;
  for (uint32_t worker = 0; worker < options_.workers; ++worker) {
    const Plan& plan = paper(worker, round).plan;
    if (plan.rate != first.rate) {
      return fail(
          ErrorCode::kMismatch,
          fmt::format("step {} has rate {} at worker {} and {} at worker 0: set the same on "
                      "all",
                      plan.step, plan.rate, worker, first.rate));
    }
    if (plan.task != first.task || plan.step != first.step) {
      return fail(ErrorCode::kMismatch,
                  fmt::format("workers do different things in round {}: worker {} has task {} of "
                              "step {}, worker 0 {} of step {}",
                              round, worker, static_cast<uint32_t>(plan.task), plan.step,
                              static_cast<uint32_t>(first.task), first.step));
    }
    if (auto fine = check_keys(paper(worker, round), segment); !fine) return fine;
  }
  Segment& rows = *segments_[segment];
  const size_t before = rows.table().size();
  if (first.task == Task::kStep) {
    if (auto done = step(round, segment); !done) return done;
  }
  for (uint32_t worker = 0; worker < options_.workers; ++worker) {
    if (first.task == Task::kAssign) {
      if (auto in = take_in(paper(worker, round), segment); !in) return in;
    }
    if (auto sent = reply(paper(worker, round), segment); !sent) return sent;
  }
  rows_.fetch_add(rows.table().size() - before, std::memory_order_relaxed);
  return {};
}

/// A segment commits a step once, however often it is told it (P17).
Result<void> Server::step(uint32_t round, uint32_t segment) {
  Segment& rows = *segments_[segment];
  const uint64_t step = paper(0, round).plan.step, committed = rows.committed(0);
  for (uint32_t worker = 0; worker < options_.workers; ++worker) {
    if (paper(worker, round).has(kFresh)) rows.forget_pulled(worker);
  }
  if (step == 0) return {};
  const bool is_known = step <= committed && committed - step <= options_.staleness;
  for (uint32_t worker = 0; worker < options_.workers; ++worker) {
    const Paper& at = paper(worker, round);
    if (is_known) {
      if (!at.has(kNamed) && !at.has(kDone)) rows.skip_pulled(worker);
      continue;
    }
    if (!at.has(kDone) && step == committed + 1) continue;
    return fail(ErrorCode::kMismatch,
                fmt::format("worker {} is {} step {}, and this server has committed {}: their "
                            "rounds do not fit together",
                            worker, at.has(kDone) ? "done with" : "in", step, committed));
  }
  if (is_known) return {};
  for (uint32_t worker = 0; worker < options_.workers; ++worker) {
    if (auto in = take_in(paper(worker, round), segment); !in) return in;
  }
  if (auto applied = rows.apply(step, paper(0, round).plan.rate); !applied) return applied;
  if (on_commit_) on_commit_(segment, step);
  return {};
}

Result<void> Server::check_keys(const Paper& paper, uint32_t segment) const {
  for (const uint64_t key : paper.keys(segment)) {
    if (is_mine(key, segment)) continue;
    return fail(ErrorCode::kMismatch, fmt::format("worker {} sent key {} to a server or segment "
                                                  "that does not hold it",
                                                  paper.worker, key));
  }
  return {};
}

Result<void> Server::take_in(const Paper& paper, uint32_t segment) {
  const uint32_t count = paper.plan.segments[segment].push;
  Segment& held = *segments_[segment];
  if (paper.plan.task == Task::kAssign) {
    return held.write_records(paper.to_push(segment),
                              reinterpret_cast<const float*>(paper.rows_at(segment)));
  }
  const std::span gradients(
      paper.rows_at(segment),
      count * numeric::payload_bytes(ElementType::kF32, options_.wire, options_.shape.width));
  if (paper.has(kNamed)) {
    return held.add_gradients_of(paper.worker, paper.to_push(segment), gradients);
  }
  return held.add_gradients(paper.worker, gradients, count);
}

Result<void> Server::reply(Paper& paper, uint32_t segment) {
  const Task task = paper.plan.task;
  Paper::Sheet& sheet = paper.sheets[segment];
  if (task == Task::kAssign || task == Task::kSave) return {};
  const auto keys = paper.to_pull(segment);
  if (task == Task::kStep) {
    auto set = segments_[segment]->set_pulled(paper.worker, keys, paper.has(kKept));
    if (!set) return set;
  }
  if (keys.empty()) return {};
  if (sheet.replying) {
    if (auto sent = sheet.replying->wait(); !sent) return sent;
  }
  const Segment& rows = *segments_[segment];
  if (task == Task::kStep) {
    sheet.reply.resize(keys.size() * rows.row_bytes());
    rows.read_rows(paper.worker, sheet.reply.data());
  } else {
    sheet.reply.resize(keys.size() * options_.shape.record_lanes() * sizeof(float));
    rows.read_records(keys, reinterpret_cast<float*>(sheet.reply.data()));
  }
  const Message message{sheet.reply.data(), sheet.reply.size(), paper.worker, reply_tag(segment),
                        paper.plan.round};
  auto work = context_->world().exchange_async(std::span(&message, 1), {});
  if (!work) return fail(work.error());
  sheet.replying = std::move(*work);
  return {};
}

}  // namespace sumcast::sparse

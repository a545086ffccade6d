// What a server does with a segment of a round when all workers' parts of it are there.
#include <fmt/format.h>

#include "numeric/codec.h"
#include "sparse/server_desk.h"

namespace sumcast::sparse {
namespace {

std::span<const uint64_t> as_keys(const std::byte* at, uint32_t count) {
  return {reinterpret_cast<const uint64_t*>(at), count};
}

}  // namespace

bool Server::is_mine(uint64_t key, uint32_t segment) const {
  const uint64_t mixed = table::mix_key(key);
  return server_of(mixed, options_) == context_->rank() - options_.workers &&
         segment_of(mixed, options_) == segment;
}

Result<void> Server::answer(uint32_t segment, Task task) {
  for (const auto& desk : desks_) {
    if (desk->plan.task != task || desk->plan.step != desks_.front()->plan.step) {
      return fail(
          ErrorCode::kMismatch,
          fmt::format("workers do different things in round {}: worker {} has task {} of "
                      "step {}, another one {} of step {}",
                      desk->plan.round, desk->worker, static_cast<uint32_t>(desk->plan.task),
                      desk->plan.step, static_cast<uint32_t>(task), desks_.front()->plan.step));
    }
    if (auto fine = check_keys(*desk, segment); !fine) return fine;
  }
  Segment& rows = *segments_[segment];
  const size_t before = rows.table().size();
  if (task == Task::kStep) {
    if (auto done = step(segment); !done) return done;
  }
  for (const auto& desk : desks_) {
    if (task == Task::kAssign) {
      if (auto in = take_in(*desk, segment); !in) return in;
    }
    if (auto sent = reply(desk->worker, segment, task); !sent) return sent;
  }
  rows_.fetch_add(rows.table().size() - before, std::memory_order_relaxed);
  return {};
}

/// A segment commits a step once, however often it is told it (P17).
Result<void> Server::step(uint32_t segment) {
  Segment& rows = *segments_[segment];
  const uint64_t step = desks_.front()->plan.step;
  if (step == 0 || step == rows.committed()) return {};
  for (const auto& desk : desks_) {
    if (desk->plan.is_done == 0 && step == rows.committed() + 1) continue;
    return fail(ErrorCode::kMismatch,
                fmt::format("worker {} is {} step {}, and this server has committed {}: their "
                            "rounds do not fit together",
                            desk->worker, desk->plan.is_done == 0 ? "in" : "done with", step,
                            rows.committed()));
  }
  for (const auto& desk : desks_) {
    if (auto in = take_in(*desk, segment); !in) return in;
  }
  rows.apply(step);
  if (on_commit_) on_commit_(segment, step);
  return {};
}

Result<void> Server::check_keys(const Desk& desk, uint32_t segment) const {
  const auto count = static_cast<uint32_t>(desk.key_count(segment));
  for (const uint64_t key : as_keys(desk.keys_at(segment), count)) {
    if (is_mine(key, segment)) continue;
    return fail(ErrorCode::kMismatch, fmt::format("worker {} sent key {} to a server or segment "
                                                  "that does not hold it",
                                                  desk.worker, key));
  }
  return {};
}

Result<void> Server::take_in(Desk& desk, uint32_t segment) {
  const SegmentPlan& rows = desk.plan.segments[segment];
  Segment& held = *segments_[segment];
  if (desk.plan.task == Task::kAssign) {
    return held.write_records(as_keys(desk.keys_at(segment), rows.push),
                              reinterpret_cast<const float*>(desk.rows_at(segment)));
  }
  if (rows.push == 0) return {};
  const size_t bytes =
      rows.push * numeric::payload_bytes(ElementType::kF32, options_.wire, options_.shape.width);
  return held.add_gradients(desk.worker, {desk.rows_at(segment), bytes}, rows.push);
}

Result<void> Server::reply(uint32_t worker, uint32_t segment, Task task) {
  Desk& desk = *desks_[worker];
  Desk::Sheet& sheet = desk.sheets[segment];
  if (task == Task::kAssign || task == Task::kSave) return {};
  const uint32_t pull = desk.plan.segments[segment].pull;
  const auto keys = as_keys(desk.keys_at(segment), pull);
  if (task == Task::kStep) {
    if (auto set = segments_[segment]->set_pulled(worker, keys); !set) return set;
  }
  if (pull == 0) return {};
  if (sheet.replying) {
    if (auto sent = sheet.replying->wait(); !sent) return sent;
  }
  const size_t lanes = task == Task::kStep ? options_.shape.width : options_.shape.record_lanes();
  sheet.reply.resize(pull * lanes);
  if (task == Task::kStep) {
    segments_[segment]->read_rows(worker, sheet.reply.data());
  } else {
    segments_[segment]->read_records(keys, sheet.reply.data());
  }
  const Message message{sheet.reply.data(), sheet.reply.size() * sizeof(float), worker,
                        reply_tag(segment), desk.plan.round};
  auto work = context_->world().exchange_async(std::span(&message, 1), {});
  if (!work) return fail(work.error());
  sheet.replying = std::move(*work);
  return {};
}

}  // namespace sumcast::sparse

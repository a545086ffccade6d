// What a server's thread reads of its worker: plans, orders, bodies; and what it refuses.
#include <fmt/format.h>

#include "numeric/codec.h"
#include "sparse/rate.h"
#include "sparse/server_desk.h"

namespace sumcast::sparse {
namespace {

/// Workers may compute for as long as they like; their death is noticed otherwise.
constexpr std::chrono::nanoseconds kIdlePatience = std::chrono::hours(24 * 365);

}  // namespace

Result<void> Server::serve(uint32_t worker) {
  Desk& desk = *desks_[worker];
  Call call;
  call.timeout = kIdlePatience;
  for (uint32_t round = 0;; ++round) {
    if (!options_.asynchronous) {
      if (auto free = wait_until([&] { return book_.may_begin(round); }); !free) return free;
    }
    Paper& at = paper(worker, round);
    const Message plan{&at.plan, plan_bytes(options_.segments), worker, kPlanTag, 0};
    if (auto got = context_->world().exchange({}, std::span(&plan, 1), call); !got) return got;
    if (at.plan.round != round) {
      return fail(ErrorCode::kMismatch,
                  fmt::format("worker {} is in round {}, and this server in {}", worker,
                              at.plan.round, round));
    }
    if (at.plan.task == Task::kLeave) return let_go(desk, at.plan);
    if (at.plan.task == Task::kMove) return let_move(desk);
    if (auto fine = check(at); !fine) return fine;
    if (auto begun = begin_round(desk); !begun) return begun;
    if (auto read = read_order(at); !read) return read;
    if (auto read = read_bodies(at); !read) return read;
  }
}

/// Who has left brings nothing to a round.
Result<void> Server::begin_round(Desk& desk) {
  std::lock_guard lock(mutex_);
  ++desk.begun;
  if (!left_ || options_.asynchronous) return {};
  return fail(
      ErrorCode::kMismatch,
      fmt::format("worker {} has left, and others go on with round {}", *left_, desk.begun - 1));
}

Result<void> Server::let_go(Desk& desk, const Plan& plan) {
  if (!options_.asynchronous) {
    auto ended = wait_until([&] { return book_.ended() == desk.begun; });
    if (!ended) return ended;
  }
  if (seat_ != nullptr) {  // Who could go on in another context has to know that it need not.
    Ack bye{plan.round};
    const Message ack{&bye, sizeof bye, desk.worker, kAckTag, bye.round};
    if (auto told = context_->world().exchange(std::span(&ack, 1), {}); !told) return told;
  }
  std::lock_guard lock(mutex_);
  left_ = desk.worker;
  has_left_[desk.worker] = true;
  if (options_.asynchronous) return {};
  for (const auto& other : desks_) {
    if (other->begun <= book_.ended()) continue;
    return fail(ErrorCode::kMismatch,
                fmt::format("worker {} has left, and others go on with round {}", desk.worker,
                            other->begun - 1));
  }
  return {};
}

/// It goes on in a better place (P23), with all that this server owed it here.
Result<void> Server::let_move(Desk& desk) {
  if (seat_ == nullptr) {
    return fail(ErrorCode::kMismatch,
                fmt::format("worker {} goes to another place, and there is none", desk.worker));
  }
  if (!options_.asynchronous) {
    auto ended = wait_until([&] { return book_.ended() == desk.begun; });
    if (!ended) return ended;
  }
  for (Paper& paper : desk.papers) {
    for (Paper::Sheet& sheet : paper.sheets) {
      if (!sheet.replying) continue;
      if (auto sent = sheet.replying->wait(); !sent) return sent;
    }
  }
  if (desk.acking) {
    if (auto sent = desk.acking->wait(); !sent) return sent;
  }
  std::lock_guard lock(mutex_);
  is_moving_ = true;
  return {};
}

/// All receives are posted at once, so that bodies stream.
Result<void> Server::read_bodies(Paper& paper) {
  const Plan& plan = paper.plan;
  const size_t row_bytes =
      plan.task == Task::kAssign
          ? options_.shape.record_lanes() * sizeof(float)
          : numeric::payload_bytes(ElementType::kF32, options_.wire, options_.shape.width);
  for (uint32_t segment = 0; segment < options_.segments; ++segment) {
    Paper::Sheet& sheet = paper.sheets[segment];
    const uint64_t bytes =
        paper.key_count(segment) * sizeof(uint64_t) + plan.segments[segment].push * row_bytes;
    if (bytes == 0) continue;
    sheet.body.resize((bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t));
    const Message body{sheet.body.data(), bytes, paper.worker, body_tag(segment), plan.round};
    auto work = context_->world().exchange_async({}, std::span(&body, 1));
    if (!work) return fail(work.error());
    sheet.receiving = std::move(*work);
  }
  for (uint32_t segment = 0; segment < options_.segments; ++segment) {
    Paper::Sheet& sheet = paper.sheets[segment];
    if (sheet.receiving) {
      if (auto got = sheet.receiving->wait(); !got) return got;
      sheet.receiving.reset();
    }
    auto done = options_.asynchronous ? answer_alone(paper, segment) : arrive(paper, segment);
    if (!done) return done;
  }
  return options_.asynchronous ? end_alone(paper) : Result<void>();
}

/// What worker 0 wants of all servers.
Result<void> Server::read_order(Paper& paper) {
  if (paper.plan.task != Task::kSave || paper.worker != 0) return {};
  const Message order{&paper.order, sizeof(SaveOrder), paper.worker, kOrderTag, paper.plan.round};
  return context_->world().exchange({}, std::span(&order, 1));
}

/// Nothing that came over the network is believed: task and sizes, before memory is allotted.
Result<void> Server::check(const Paper& paper) const {
  const Plan& plan = paper.plan;
  const auto refuse = [&](const std::string& what) {
    return fail(ErrorCode::kMismatch,
                fmt::format("worker {} in round {}: {}", paper.worker, plan.round, what));
  };
  const Task task = plan.task;
  if (task != Task::kStep && task != Task::kFetch && task != Task::kAssign && task != Task::kSave) {
    return refuse(fmt::format("no such task: {}", static_cast<uint32_t>(task)));
  }
  if (task == Task::kStep && plan.step != 0 && !is_rate(plan.rate, options_.shape.optimizer.kind)) {
    return refuse(fmt::format("steps at the rate {}", plan.rate));
  }
  const bool may_push =
      task == Task::kAssign || (task == Task::kStep && plan.step != 0 && !paper.has(kDone));
  const bool may_pull = task == Task::kStep || task == Task::kFetch;
  for (uint32_t segment = 0; segment < options_.segments; ++segment) {
    const SegmentPlan& rows = plan.segments[segment];
    if (rows.push > options_.body_rows_max || rows.pull > options_.body_rows_max) {
      return refuse(
          fmt::format("pushes {} and pulls {} rows of a segment; {} are possible: take "
                      "smaller batches, or more segments",
                      rows.push, rows.pull, options_.body_rows_max));
    }
    if ((rows.push != 0 && !may_push) || (rows.pull != 0 && !may_pull)) {
      return refuse("pushes and pulls do not go with its task");
    }
  }
  return {};
}

}  // namespace sumcast::sparse

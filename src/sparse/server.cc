#include "sparse/server.h"

#include <fmt/format.h>

#include <thread>

#include "numeric/codec.h"
#include "sparse/agreement.h"
#include "sparse/server_desk.h"

namespace sumcast::sparse {
namespace {

/// How often a thread that waits for the others' rows looks whether the job still is one.
constexpr std::chrono::nanoseconds kLookInterval = std::chrono::milliseconds(100);
/// Workers may compute for as long as they like; their death is noticed otherwise.
constexpr std::chrono::nanoseconds kIdlePatience = std::chrono::hours(24 * 365);

/// A checkpoint that is there and not taken up must not be written over. The others hear of it.
Result<void> check_directory(Context& context, const Options& options) {
  const bool writes = context.rank() == 0 || context.rank() >= options.workers;
  if (options.checkpoint_directory.empty() || options.restore || !writes) return {};
  auto found = read_manifest(options.checkpoint_directory);
  if (found && !*found) return {};
  const Error error =
      !found ? found.error()
             : Error{ErrorCode::kInvalidArgument,
                     fmt::format("{} holds a checkpoint: go on from it (--resume), or name another "
                                 "directory",
                                 options.checkpoint_directory)};
  context.world().abort(error.what);
  return fail(error);
}

}  // namespace

Result<void> agree_on(Context& context, const Options& options) {
  if (auto fine = options.validate(); !fine) return fine;
  if (context.size() != options.workers + options.servers) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("sparse: {} workers and {} servers do not make a job of {} ranks",
                            options.workers, options.servers, context.size()));
  }
  if (auto free = check_directory(context, options); !free) return free;
  const auto same = same_on_all(context.world(), options.fingerprint());
  if (!same) return fail(same.error());
  if (*same) return {};
  return fail(ErrorCode::kMismatch,
              "sparse: the members' options differ (workers, servers, segments, rows, optimizer, "
              "seed, wire format or checkpoint): start all with the same");
}

Server::Server(Context& context, Seat* seat, const Options& options)
    : context_(&context),
      seat_(seat),
      options_(options),
      arrived_(options.segments),
      has_left_(options.workers),
      acks_(options.workers) {
  for (uint32_t segment = 0; segment < options.segments; ++segment) {
    segments_.push_back(std::make_unique<Segment>(options));
  }
  for (uint32_t worker = 0; worker < options.workers; ++worker) {
    desks_.push_back(std::make_unique<Desk>());
    desks_.back()->worker = worker;
    desks_.back()->sheets.resize(options.segments);
  }
}

Server::~Server() = default;

Result<std::unique_ptr<Server>> Server::create(Context& context, const Options& options) {
  return create_in(context, nullptr, options);
}
Result<std::unique_ptr<Server>> Server::create(Seat& seat, const Options& options) {
  return create_in(seat.context(), &seat, options);
}

Result<std::unique_ptr<Server>> Server::create_in(Context& context, Seat* seat,
                                                  const Options& options) {
  if (auto agreed = agree_on(context, options); !agreed) return fail(agreed.error());
  if (context.rank() < options.workers) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("sparse: rank {} is a worker, not a server", context.rank()));
  }
  std::unique_ptr<Server> server(new Server(context, seat, options));
  if (auto restored = server->restore(); !restored) {
    context.world().abort("server: " + restored.error().what);  // Workers are there by now.
    return fail(restored.error());
  }
  return server;
}

Result<void> Server::run() {
  for (;;) {
    auto served = serve_all();
    if (served) return {};
    if (seat_ == nullptr) return served;
    if (auto moved = move_on(); !moved) {
      seat_->end("server: " + moved.error().what);
      return moved;
    }
  }
}

/// In one context, until all workers have left.
Result<void> Server::serve_all() {
  std::vector<std::thread> threads;
  for (uint32_t worker = 0; worker < options_.workers; ++worker) {
    if (has_left_[worker]) continue;
    threads.emplace_back([this, worker] {
      if (auto served = serve(worker); !served) fail_all(served.error());
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (failed_) return fail(*failed_);
  return {};
}

/// Nothing of the failed context is under way any more: fail_all() fenced it. Rows, and which step
/// each segment has committed, are what is left of it; the workers repeat the rest.
Result<void> Server::move_on() {
  if (auto moved = seat_->move_on(*failed_, fmt::format("a server of {} rows", rows())); !moved) {
    return moved;
  }
  context_ = &seat_->context();
  failed_.reset();
  acknowledging_.reset();
  receipting_.reset();
  answered_ = 0;
  rounds_ended_ = 0;
  for (auto& arrived : arrived_) arrived.store(0, std::memory_order_relaxed);
  for (const auto& segment : segments_) segment->discard_gradients();
  for (const auto& desk : desks_) {
    for (Desk::Sheet& sheet : desk->sheets) sheet.receiving.reset(), sheet.replying.reset();
  }
  return {};
}

/// Ends the group, and with it the other threads' waits.
void Server::fail_all(const Error& error) {
  {
    std::lock_guard lock(mutex_);
    if (failed_) return;
    failed_ = error;
    changed_.notify_all();
  }
  context_->world().abort("server: " + error.what);
}

Result<void> Server::serve(uint32_t worker) {
  Desk& desk = *desks_[worker];
  Call call;
  call.timeout = kIdlePatience;
  for (uint32_t round = 0;; ++round) {
    const Message plan{&desk.plan, plan_bytes(options_.segments), worker, kPlanTag, 0};
    if (auto got = context_->world().exchange({}, std::span(&plan, 1), call); !got) return got;
    if (desk.plan.round != round) {
      return fail(ErrorCode::kMismatch,
                  fmt::format("worker {} is in round {}, and this server in {}", worker,
                              desk.plan.round, round));
    }
    if (desk.plan.task == Task::kLeave) {
      if (auto told = let_go(desk); !told) return told;
      std::lock_guard lock(mutex_);
      left_ = worker;
      has_left_[worker] = true;
      changed_.notify_all();
      return {};
    }
    if (auto fine = check(desk); !fine) return fine;
    if (auto read = read_order(desk); !read) return read;
    if (auto read = read_bodies(desk); !read) return read;
    if (auto ended = wait_for_end_of(round); !ended) return ended;
  }
}

/// Who could go on in another context has to know that it need not.
Result<void> Server::let_go(const Desk& desk) {
  if (seat_ == nullptr) return {};
  uint32_t round = desk.plan.round;
  const Message ack{&round, sizeof round, desk.worker, kAckTag, round};
  return context_->world().exchange(std::span(&ack, 1), {});
}

/// All receives are posted at once, so that bodies stream.
Result<void> Server::read_bodies(Desk& desk) {
  const size_t row_bytes =
      desk.plan.task == Task::kAssign
          ? options_.shape.record_lanes() * sizeof(float)
          : numeric::payload_bytes(ElementType::kF32, options_.wire, options_.shape.width);
  for (uint32_t segment = 0; segment < options_.segments; ++segment) {
    Desk::Sheet& sheet = desk.sheets[segment];
    const SegmentPlan& rows = desk.plan.segments[segment];
    const uint64_t bytes = desk.key_count(segment) * sizeof(uint64_t) + rows.push * row_bytes;
    if (bytes == 0) continue;
    sheet.body.resize((bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t));
    const Message body{sheet.body.data(), bytes, desk.worker, body_tag(segment), desk.plan.round};
    auto work = context_->world().exchange_async({}, std::span(&body, 1));
    if (!work) return fail(work.error());
    sheet.receiving = std::move(*work);
  }
  for (uint32_t segment = 0; segment < options_.segments; ++segment) {
    Desk::Sheet& sheet = desk.sheets[segment];
    if (sheet.receiving) {
      if (auto got = sheet.receiving->wait(); !got) return got;
      sheet.receiving.reset();
    }
    if (auto done = arrive(segment, desk.plan.task); !done) return done;
  }
  return {};
}

/// What worker 0 wants of all servers.
Result<void> Server::read_order(Desk& desk) {
  if (desk.plan.task != Task::kSave || desk.worker != 0) return {};
  const Message order{&desk.order, sizeof(SaveOrder), desk.worker, kOrderTag, desk.plan.round};
  return context_->world().exchange({}, std::span(&order, 1));
}

Result<void> Server::arrive(uint32_t segment, Task task) {
  std::atomic<uint32_t>& arrived = arrived_[segment];
  if (arrived.fetch_add(1, std::memory_order_acq_rel) + 1 < options_.workers) return {};
  arrived.store(0, std::memory_order_relaxed);
  if (auto done = answer(segment, task); !done) return done;
  {
    std::lock_guard lock(mutex_);
    if (++answered_ < options_.segments) return {};
  }
  return end_round();
}

/// All segments have answered, and no other thread touches what they hold until this is done.
Result<void> Server::end_round() {
  const Plan& plan = desks_.front()->plan;
  if (plan.task == Task::kSave) {
    if (auto saved = save(desks_.front()->order, plan.round); !saved) return saved;
  }
  if (plan.task != Task::kAssign) {
    if (auto told = acknowledge(plan.round); !told) return told;
  }
  std::lock_guard lock(mutex_);
  answered_ = 0;
  ++rounds_ended_;
  changed_.notify_all();
  return {};
}

/// Behind all replies: this server has committed the round.
Result<void> Server::acknowledge(uint32_t round) {
  if (acknowledging_) {
    if (auto sent = acknowledging_->wait(); !sent) return sent;
  }
  std::vector<Message> sends;
  for (uint32_t worker = 0; worker < options_.workers; ++worker) {
    acks_[worker] = round;
    sends.push_back({&acks_[worker], sizeof(uint32_t), worker, kAckTag, round});
  }
  auto work = context_->world().exchange_async(sends, {});
  if (!work) return fail(work.error());
  acknowledging_ = std::move(*work);
  return {};
}

Result<void> Server::wait_for_end_of(uint32_t round) {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (failed_) return fail(*failed_);
    if (rounds_ended_ != round) return {};
    if (left_) {
      return fail(ErrorCode::kMismatch,
                  fmt::format("worker {} has left, and others go on with round {}", *left_, round));
    }
    lock.unlock();
    if (const auto ended = context_->world().aborted()) return fail(*ended);
    lock.lock();
    changed_.wait_for(lock, kLookInterval, [&] { return rounds_ended_ != round || failed_; });
  }
}

/// Nothing that came over the network is believed: task and sizes, before memory is allotted.
Result<void> Server::check(const Desk& desk) const {
  const auto refuse = [&](const std::string& what) {
    return fail(ErrorCode::kMismatch,
                fmt::format("worker {} in round {}: {}", desk.worker, desk.plan.round, what));
  };
  const Task task = desk.plan.task;
  if (task != Task::kStep && task != Task::kFetch && task != Task::kAssign && task != Task::kSave) {
    return refuse(fmt::format("no such task: {}", static_cast<uint32_t>(task)));
  }
  for (uint32_t segment = 0; segment < options_.segments; ++segment) {
    const SegmentPlan& rows = desk.plan.segments[segment];
    if (rows.push > options_.body_rows_max || rows.pull > options_.body_rows_max) {
      return refuse(
          fmt::format("pushes {} and pulls {} rows of a segment; {} are possible: take "
                      "smaller batches, or more segments",
                      rows.push, rows.pull, options_.body_rows_max));
    }
    const size_t pulled = segments_[segment]->pulled(desk.worker);
    // Of a step that is committed here gradients are not looked at again.
    const bool repeated = segments_[segment]->committed() == desk.plan.step;
    if (task == Task::kStep && !repeated && rows.push != 0 && rows.push != pulled) {
      return refuse(
          fmt::format("pushes gradients of {} rows, but had pulled {}", rows.push, pulled));
    }
    if ((task == Task::kFetch && rows.push != 0) || (task == Task::kAssign && rows.pull != 0) ||
        (task == Task::kSave && rows.push + rows.pull != 0) ||
        (desk.plan.step == 0 && task == Task::kStep && rows.push != 0)) {
      return refuse("pushes and pulls do not go with its task");
    }
  }
  return {};
}

}  // namespace sumcast::sparse

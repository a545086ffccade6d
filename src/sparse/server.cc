#include "sparse/server.h"

#include <fmt/format.h>

#include <thread>

#include "sparse/agreement.h"
#include "sparse/server_desk.h"

namespace sumcast::sparse {
namespace {

/// How often a thread that waits for the others' rows looks whether the job still is one.
constexpr std::chrono::nanoseconds kLookInterval = std::chrono::milliseconds(100);

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
      book_(options.workers, options.segments, options.staleness),
      segment_locks_(options.segments),
      save_rounds_(options.workers),
      has_left_(options.workers),
      acks_(options.workers) {
  for (uint32_t segment = 0; segment < options.segments; ++segment) {
    segments_.push_back(std::make_unique<Segment>(options));
  }
  for (uint32_t worker = 0; worker < options.workers; ++worker) {
    desks_.push_back(std::make_unique<Desk>());
    Desk& desk = *desks_.back();
    desk.worker = worker;
    desk.papers.resize(book_.places());
    for (Paper& paper : desk.papers) {
      paper.worker = worker;
      paper.sheets.resize(options.segments);
    }
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
    if (served && !is_moving_) return {};
    if (served) served = go_back();
    if (served) continue;
    if (seat_ == nullptr) return served;
    if (auto moved = move_on(); !moved) {
      seat_->end("server: " + moved.error().what);
      return moved;
    }
  }
}

/// In one context, until all workers have left.
Result<void> Server::serve_all() {
  context_->world().bound_inflow(worker_window_bytes(options_.workers));
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
  enter_context();
  return {};
}

/// All workers have gone there, and have everything that this server owed them.
Result<void> Server::go_back() {
  if (!seat_->go_back(fmt::format("a server of {} rows", rows()))) {
    const Error error{ErrorCode::kInternal, "workers went back where this server has not joined"};
    fail_all(error);
    return fail(error);
  }
  enter_context();
  return {};
}

void Server::enter_context() {
  context_ = &seat_->context();
  failed_.reset();
  is_moving_ = false;
  acknowledging_.reset();
  receipting_.reset();
  book_.reset();
  saving_ = 0;
  for (const auto& segment : segments_) segment->forget_round();
  for (const auto& desk : desks_) {
    desk->begun = 0;
    desk->acking.reset();
    for (Paper& paper : desk->papers) {
      for (Paper::Sheet& sheet : paper.sheets) sheet.receiving.reset(), sheet.replying.reset();
    }
  }
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

Result<void> Server::arrive(const Paper& paper, uint32_t segment) {
  const uint32_t round = paper.plan.round;
  if (round == UINT32_MAX) {  // Places of rounds would not go on evenly behind it.
    return fail(ErrorCode::kInternal,
                "the rounds of this job are used up: start it anew from its last checkpoint");
  }
  if (!book_.arrive(round, segment)) return {};
  if (auto done = answer(round, segment); !done) return done;
  {
    std::lock_guard lock(mutex_);
    if (!book_.handled()) return {};
  }
  return end_round(paper);
}

/// All segments have answered, and no other thread touches what they hold until this is done.
Result<void> Server::end_round(const Paper& any) {
  const uint32_t round = any.plan.round;
  if (any.plan.task == Task::kSave) {
    if (auto saved = save(paper(0, round).order, round); !saved) return saved;
  }
  if (any.plan.task != Task::kAssign) {
    const std::vector<uint32_t> rounds(options_.workers, round);
    const uint32_t marks = paper(0, round).plan.marks;
    if (auto told = acknowledge(rounds, marks); !told) return told;
  }
  if (seat_ != nullptr) seat_->confirm();
  std::lock_guard lock(mutex_);
  book_.end_round();
  changed_.notify_all();
  return {};
}

/// Behind all replies: this server has committed what each worker knows by this number.
Result<void> Server::acknowledge(std::span<const uint32_t> rounds, uint32_t marks) {
  if (acknowledging_) {
    if (auto sent = acknowledging_->wait(); !sent) return sent;
  }
  std::vector<Message> sends;
  for (uint32_t worker = 0; worker < options_.workers; ++worker) {
    acks_[worker] = {rounds[worker], marks};
    sends.push_back({&acks_[worker], sizeof(Ack), worker, kAckTag, rounds[worker]});
  }
  auto work = context_->world().exchange_async(sends, {});
  if (!work) return fail(work.error());
  acknowledging_ = std::move(*work);
  return {};
}

/// Of what is read under the lock, which whoever changes it announces.
Result<void> Server::wait_until(const std::function<bool()>& is_so) {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (failed_) return fail(*failed_);
    if (is_so()) return {};
    lock.unlock();
    if (const auto ended = context_->world().aborted()) return fail(*ended);
    lock.lock();
    changed_.wait_for(lock, kLookInterval, [&] { return failed_ || is_so(); });
  }
}

}  // namespace sumcast::sparse

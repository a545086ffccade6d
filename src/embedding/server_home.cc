#include "embedding/server_home.h"

#include "runtime/log.h"

namespace sumcast::embedding {
namespace {

/// As long as a context waits for its peers.
constexpr std::chrono::seconds kLeavePatience(2);

}  // namespace

ServerHome::ServerHome(sumcast::Options member, const sparse::Options& rows,
                       std::shared_future<std::string> coordinator)
    : thread_([this, member = std::move(member), rows, coordinator = std::move(coordinator)] {
        if (auto lived = live(member, rows, coordinator); !lived) {
          runtime::log_info(runtime::Subsystem::kControl, "a table's server ended: {}",
                            lived.error().what);
        }
        leave();
      }) {}

/// Beside this process's worker, for a context that leaves waits for the others.
void ServerHome::leave() {
  std::unique_ptr<sparse::Seat> seat;
  std::unique_ptr<sparse::Server> server;
  {
    const std::lock_guard lock(mutex_);
    seat.swap(seat_);
    server.swap(server_);
  }
  server.reset();
  seat.reset();
  const std::lock_guard lock(mutex_);
  has_ended_ = true;
  ended_.notify_all();
}

Result<void> ServerHome::live(sumcast::Options member, const sparse::Options& rows,
                              const std::shared_future<std::string>& coordinator) {
  member.coordinator = coordinator.get();
  if (member.coordinator.empty() && member.aggregator.empty()) return {};
  auto seat = sparse::Seat::join(member, true);
  if (!seat) return fail(seat.error());
  {
    const std::lock_guard lock(mutex_);
    seat_ = std::move(*seat);
    if (aborted_) seat_->end(*aborted_);
  }
  auto server = make_member<sparse::Server>(*seat_, rows);
  if (!server) return fail(server.error());
  {
    const std::lock_guard lock(mutex_);
    server_ = std::move(*server);
  }
  return server_->run();
}

ServerHome::~ServerHome() { finish(); }

void ServerHome::finish() {
  {
    std::unique_lock lock(mutex_);
    ended_.wait_for(lock, kLeavePatience, [this] { return has_ended_; });
  }
  abort("a rank has closed its table");
  if (thread_.joinable()) thread_.join();
}

void ServerHome::abort(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (has_ended_ || aborted_) return;
  aborted_ = reason;
  if (seat_) seat_->end(reason);
}

size_t ServerHome::rows() const {
  const std::lock_guard lock(mutex_);
  return server_ ? server_->rows() : 0;
}

}  // namespace sumcast::embedding

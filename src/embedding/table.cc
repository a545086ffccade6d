// A table's handle: this rank's worker, and its server where it has one.
#include "sumcast/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <future>
#include <mutex>

#include "auth/secret.h"
#include "embedding/hot_follower.h"
#include "embedding/rows_options.h"
#include "embedding/server_home.h"
#include "sparse/worker.h"
#include "table/row_table.h"

namespace sumcast {
namespace {

/// The job of all members: the ranks' workers, then the servers.
Options job_of_members(const Options& job, uint32_t servers) {
  Options members = job;
  members.world = job.world + servers;
  // Rows are summed by datagrams, and a process has two members.
  members.one_rank_per_host = true;
  const bool alone = job.world == 1 && job.aggregator.empty();
  if (!alone) return members;
  if (members.coordinator.empty()) members.coordinator = "127.0.0.1:0";
  if (!members.key && members.key_file.empty() && !members.insecure) {
    auth::fill_random(members.key.emplace());
  }
  return members;
}

/// Strictly ascending keys, as most callers have them, are distinct at a glance.
Result<void> check_distinct(std::span<const uint64_t> keys) {
  const auto falls = [](auto from, auto to) {
    return std::adjacent_find(from, to, [](auto a, auto b) { return a >= b; }) != to;
  };
  if (!falls(keys.begin(), keys.end())) return {};
  std::vector<uint64_t> sorted(keys.begin(), keys.end());
  std::ranges::sort(sorted);
  const auto twice = std::ranges::adjacent_find(sorted);
  if (twice == sorted.end()) return {};
  return fail(ErrorCode::kInvalidArgument, fmt::format("table: key {} comes twice", *twice));
}

Result<void> check_keys(std::span<const uint64_t> keys, const float* rows) {
  if (rows == nullptr && !keys.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("table: no room for the rows of {} keys", keys.size()));
  }
  return check_distinct(keys);
}

}  // namespace

struct Table::Impl {
  sparse::Options options;
  std::optional<std::string> restored;
  std::unique_ptr<embedding::ServerHome> home;  // Null: this rank holds no rows.
  std::unique_ptr<sparse::Seat> seat;
  std::unique_ptr<sparse::Worker> worker;
  std::optional<Group> group;  // Of the workers, for abort(), where the seat has none.
  std::optional<embedding::HotFollower> follower;
  std::mutex mutex;               // Of calls: one at a time.
  std::vector<uint64_t> current;  // Keys.
  bool are_pulled = true;         // Does the worker have them as its own?
  uint64_t hot_changes = 0;
  std::mutex counters_mutex;
  TableCounters counted;  // As of the last call that ended.

  /// A call: alone, and counted in the end.
  class Turn {
   public:
    explicit Turn(Impl& impl) : impl_(impl), lock_(impl.mutex) {}
    ~Turn() { impl_.count(); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    Impl& impl_;
    std::lock_guard<std::mutex> lock_;
  };

  void count();
  Result<void> join(const Options& job, const TableOptions& asked);
  Result<void> begin(const TableOptions& asked);
  void copy_rows(float* rows) const;
  Result<void> push(const float* gradients, std::span<const uint64_t> next);
};

/// Both members of this process, side by side: neither gets in before all have come.
Result<void> Table::Impl::join(const Options& job, const TableOptions& asked) {
  if (job.rank >= job.world) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("rank {} of a world of {} does not exist", job.rank, job.world));
  }
  auto found = embedding::rows_options(asked, job.world);
  if (!found) return fail(found.error());
  options = std::move(*found);
  const auto checkpoint = embedding::open_checkpoint(asked, options);
  Options member = job_of_members(job, options.servers);
  std::promise<std::string> listening;
  const bool hears = job.rank == 0 && member.aggregator.empty();
  bool heard = !hears;
  if (!hears) listening.set_value(member.coordinator);
  const auto tell = [&](const std::string& where) {
    if (!heard) listening.set_value(where);
    heard = true;
  };
  if (job.rank < options.servers) {
    Options server = member;
    server.rank = job.world + job.rank;
    server.on_listening = nullptr;
    home = std::make_unique<embedding::ServerHome>(server, options, listening.get_future().share());
  }
  member.on_listening = [&](const std::string& where) {
    tell(where);
    if (job.on_listening) job.on_listening(where);
  };
  auto joined = sparse::Seat::join(member, true);
  tell("");
  if (!joined) return fail(joined.error());
  seat = std::move(*joined);
  if (!checkpoint) {
    seat->end(checkpoint.error().what);  // The others would wait.
    return checkpoint;
  }
  return begin(asked);
}

Result<void> Table::Impl::begin(const TableOptions& asked) {
  auto made = embedding::make_member<sparse::Worker>(*seat, options);
  if (!made) return fail(made.error());
  worker = std::move(*made);
  if (!seat->has_places()) group = worker->group();
  follower.emplace(sparse::link_model(options, seat->context().payload_bytes()), asked.hot_max,
                   asked.track, seat->context().rank() == 0);
  // Servers compare the rest; these two decide which calls all ranks make together.
  const int64_t mine =
      static_cast<int64_t>(table::hash_with(table::hash_with(0, asked.hot_max), asked.track) >> 2);
  std::array<int64_t, 2> both{mine, -mine};
  if (auto r = worker->all_reduce(std::span<int64_t>(both), Reduction::kMax); !r) return r;
  if (both[0] != mine || both[1] != -mine) {
    return fail(ErrorCode::kMismatch, "hot_max or track differ between ranks");
  }
  if (asked.hot_max != 0) {
    // Can such rows be hot at all? Better known now than after a step.
    const uint64_t any = 0;
    if (auto set = worker->set_hot(std::span(&any, 1)); !set) return set;
    if (auto unset = worker->set_hot({}); !unset) return unset;
  }
  if (!options.restore) return {};
  auto state = sparse::read_state(options.checkpoint_directory, *options.restore);
  if (!state) {
    seat->end(state.error().what);
    return fail(state.error());
  }
  restored = std::move(*state);
  return {};
}

void Table::Impl::count() {
  const sparse::WorkerCounters& of = worker->counters();
  const std::lock_guard lock(counters_mutex);
  counted.rounds = of.rounds;
  counted.hot_pushed = of.hot_pushed;
  counted.cold_pushed = of.cold_pushed;
  counted.hot_moved = of.hot_moved;
  counted.cold_pulled = of.cold_pulled;
  counted.hot_keys = worker->hot_keys();
  counted.hot_changes = hot_changes;
  counted.failovers = of.failovers;
  counted.returns = of.returns;
  counted.checkpoints = of.checkpoints;
}

void Table::Impl::copy_rows(float* rows) const {
  const size_t width = options.shape.width;
  for (size_t i = 0; i < worker->keys(); ++i) {
    std::memcpy(rows + i * width, worker->row(i), width * sizeof(float));
  }
}

/// What is done here depends on the calls alone, not on the keys: all ranks do the same.
Result<void> Table::Impl::push(const float* gradients, std::span<const uint64_t> next) {
  if (!are_pulled) {
    if (auto pulled = worker->pull(current); !pulled) return pulled;
    are_pulled = true;
  }
  const bool decides = follower->on_round(current);
  const auto beside = decides ? std::span<const uint64_t>() : next;
  if (auto done = worker->push_pull(gradients, beside); !done) return done;
  if (!decides) return {};
  auto hot = follower->decide(*worker);
  if (!hot) return fail(hot.error());
  if (*hot) {
    if (auto set = worker->set_hot(**hot); !set) return set;
    ++hot_changes;
  }
  return worker->pull(next);
}

Table::Table(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Table::~Table() {
  // The worker says that it leaves, and waits for others to do so too; then its server does.
  impl_->follower.reset();
  impl_->group.reset();
  impl_->worker.reset();
  impl_->seat.reset();
}

Result<std::unique_ptr<Table>> Table::open(const Options& job, const TableOptions& options) {
  std::unique_ptr<Table> table(new Table(std::make_unique<Impl>()));
  if (auto joined = table->impl_->join(job, options); !joined) return fail(joined.error());
  return table;
}

uint32_t Table::width() const { return impl_->options.shape.width; }

Result<void> Table::pull(std::span<const uint64_t> keys, float* rows) {
  const Impl::Turn turn(*impl_);
  if (auto fine = check_keys(keys, rows); !fine) return fine;
  if (auto pulled = impl_->worker->pull(keys); !pulled) return pulled;
  impl_->current.assign(keys.begin(), keys.end());
  impl_->are_pulled = true;
  impl_->copy_rows(rows);
  return {};
}

Result<void> Table::push(std::span<const float> gradients, std::span<const uint64_t> next,
                         float* rows) {
  const Impl::Turn turn(*impl_);
  if (auto fine = check_keys(next, rows); !fine) return fine;
  if (gradients.size() != impl_->current.size() * width()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("table: {} lanes of gradients, and {} current keys with {} lanes each",
                            gradients.size(), impl_->current.size(), width()));
  }
  if (auto pushed = impl_->push(gradients.data(), next); !pushed) return pushed;
  impl_->current.assign(next.begin(), next.end());
  impl_->copy_rows(rows);
  return {};
}

Result<void> Table::set_rate(float rate) {
  const Impl::Turn turn(*impl_);
  return impl_->worker->set_rate(rate);
}

Result<void> Table::peek(std::span<const uint64_t> keys, float* rows) {
  const Impl::Turn turn(*impl_);
  if (auto fine = check_keys(keys, rows); !fine) return fine;
  impl_->are_pulled = false;
  return impl_->worker->peek(keys, rows);
}

size_t Table::keys() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->current.size();
}

Result<void> Table::set_hot(std::span<const uint64_t> keys) {
  const Impl::Turn turn(*impl_);
  if (auto fine = check_distinct(keys); !fine) return fine;
  if (auto set = impl_->worker->set_hot(keys); !set) return set;
  impl_->are_pulled = false;
  impl_->follower->set_current(keys);
  return {};
}

Result<void> Table::save(bool full, std::string_view state) {
  const Impl::Turn turn(*impl_);
  return impl_->worker->save(full, state);
}

const std::optional<std::string>& Table::restored() const { return impl_->restored; }

TableCounters Table::counters() const {
  const std::lock_guard lock(impl_->counters_mutex);
  TableCounters all = impl_->counted;
  all.rows_held = impl_->home ? impl_->home->rows() : 0;
  return all;
}

void Table::abort(const std::string& reason) {
  impl_->seat->end(reason);
  if (impl_->group) impl_->group->abort(reason);
  if (impl_->home) impl_->home->abort(reason);
}

}  // namespace sumcast

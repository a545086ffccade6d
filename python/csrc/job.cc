#include "job.h"

#include <unistd.h>

#include <algorithm>
#include <stdexcept>

#include "living.h"

namespace sumcast_torch {
namespace {

const char* or_null(const std::string& text) { return text.empty() ? nullptr : text.c_str(); }

/// Called by the library while it joins; an exception must not pass through it.
struct Listening {
  const std::function<void(const std::string&)>& tell;
  std::string where;
  std::exception_ptr failure;

  static void call(void* self, const char* address) {
    auto& me = *static_cast<Listening*>(self);
    me.where = address;
    try {
      if (me.tell) me.tell(address);
    } catch (...) {
      me.failure = std::current_exception();
    }
  }
};

}  // namespace

std::string meet(const Meeting& meeting, uint32_t rank, uint32_t world,
                 std::chrono::milliseconds timeout,
                 const std::function<void(const sumcast_options*)>& join) {
  Listening listening{meeting.on_listening, {}, nullptr};
  sumcast_options options{};
  options.size = sizeof options;
  options.job = or_null(meeting.job);
  options.rank = rank;
  options.world = world;
  options.aggregator = or_null(meeting.aggregator);
  options.coordinator = or_null(meeting.coordinator);
  options.key_file = or_null(meeting.key_file);
  options.insecure = meeting.insecure ? 1 : 0;
  options.timeout_ms = timeout.count();
  options.join_timeout_ms = timeout.count();
  options.use_settings = 1;
  if (meeting.key.size() == 32) options.key = reinterpret_cast<const uint8_t*>(meeting.key.data());
  options.on_listening = &Listening::call;
  options.user = &listening;
  join(&options);
  if (listening.failure) std::rethrow_exception(listening.failure);
  return !listening.where.empty()      ? listening.where
         : !meeting.aggregator.empty() ? meeting.aggregator
                                       : meeting.coordinator;
}

Job::Job(const Meeting& meeting, uint32_t rank, std::vector<uint64_t> ranks,
         std::chrono::milliseconds timeout)
    : ranks_(std::move(ranks)), pid_(::getpid()) {
  std::unique_ptr<sumcast_context, void (*)(sumcast_context*)> made(nullptr, sumcast_context_free);
  std::string failure;
  where_ = meet(meeting, rank, static_cast<uint32_t>(ranks_.size()), timeout,
                [&](const sumcast_options* options) {
                  sumcast_context* context = nullptr;
                  const int code = sumcast_context_create(options, &context);
                  if (code != SUMCAST_OK) failure = sumcast_last_error();
                  made.reset(context);
                });
  if (!made) throw std::runtime_error("sumcast: joining the job: " + failure);
  context_ = made.release();
}

Job::~Job() {
  // A forked child has none of the threads; what it inherited is the parent's to end.
  if (::getpid() == pid_) sumcast_context_free(context_);
}

std::optional<std::vector<uint32_t>> Job::places_of(const std::vector<uint64_t>& ranks) const {
  std::vector<uint32_t> places;
  for (const uint64_t rank : ranks) {
    const auto found = std::find(ranks_.begin(), ranks_.end(), rank);
    if (found == ranks_.end()) return std::nullopt;
    places.push_back(static_cast<uint32_t>(found - ranks_.begin()));
  }
  return places;
}

namespace {

Living<Group> living;

}  // namespace

std::vector<std::shared_ptr<Group>> living_groups() { return living.all(); }

std::shared_ptr<Group> Group::open(std::shared_ptr<Job> job,
                                   const std::optional<std::vector<uint32_t>>& places,
                                   const std::string& key, std::chrono::milliseconds limit) {
  auto group = std::make_shared<Group>(std::move(job), places, key, limit);
  living.add(group);
  return group;
}

Group::Group(std::shared_ptr<Job> job, const std::optional<std::vector<uint32_t>>& places,
             const std::string& key, std::chrono::milliseconds limit)
    : timeout_ms(limit.count()),
      places_(places),
      key_(key),
      pid_(::getpid()),
      job_(std::move(job)) {
  sumcast_group* made = nullptr;
  const int code = places ? sumcast_group_create(job_->context(), places->data(), places->size(),
                                                 key_.c_str(), &made)
                          : sumcast_world(job_->context(), &made);
  if (code != SUMCAST_OK) {
    throw std::runtime_error("sumcast: opening group \"" + key_ + "\": " + sumcast_last_error());
  }
  handle_ = std::shared_ptr<sumcast_group>(made, sumcast_group_free);
  rank_ = static_cast<int>(sumcast_group_rank(made));
  size_ = static_cast<int>(sumcast_group_size(made));
}

Group::~Group() {
  if (is_forked()) {
    new auto(std::move(handle_));  // The parent's to end.
    return;
  }
  close();
}

void Group::close() {
  std::shared_ptr<Job> job;  // Goes behind the handle, and both without the lock.
  std::shared_ptr<sumcast_group> handle;
  {
    const std::lock_guard lock(mutex_);
    job.swap(job_);
    handle.swap(handle_);
  }
}

std::shared_ptr<sumcast_group> Group::handle() const {
  if (is_forked()) return nullptr;
  const std::lock_guard lock(mutex_);
  return handle_;
}

std::shared_ptr<Job> Group::job() const {
  if (is_forked()) return nullptr;
  const std::lock_guard lock(mutex_);
  return job_;
}

std::vector<uint32_t> Group::places(const std::vector<uint64_t>& of) const {
  std::vector<uint32_t> all;
  for (const uint64_t place : of) {
    all.push_back(places_ ? places_->at(place) : static_cast<uint32_t>(place));
  }
  return all;
}

bool Group::is_forked() const { return ::getpid() != pid_; }

void Group::count(const std::string& operation, uint64_t bytes, double seconds, bool failed,
                  bool continued) {
  const std::lock_guard lock(mutex_);
  OperationTotals& totals = totals_[operation];
  totals.count += continued ? 0 : 1;
  totals.failed += failed ? 1 : 0;
  totals.bytes += bytes;
  totals.seconds += seconds;
}

std::map<std::string, OperationTotals> Group::totals() const {
  const std::lock_guard lock(mutex_);
  return totals_;
}

}  // namespace sumcast_torch

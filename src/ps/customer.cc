// Customers: requests under way, and what their messages do to them.
#include "ps/internal/customer.h"

#include <fmt/format.h>

#include "net/descriptor.h"
#include "ps/customer_core.h"
#include "ps/hub.h"
#include "runtime/log.h"

namespace {

using sumcast::Instant;
using sumcast::ps::Crew;
using sumcast::ps::Hub;

constexpr sumcast::Duration kNoticeEvery = std::chrono::seconds(60);

}  // namespace

void ps::Customer::Core::process(const Message& message) {
  handle(message);
  if (message.meta.request) return;
  const std::lock_guard lock(mutex);
  tracker.add(message.meta.timestamp, 1);
}

namespace ps {

Customer::Customer(int app_id, int customer_id, const RecvHandle& recv_handle)
    : app_id_(app_id),
      customer_id_(customer_id),
      core_(std::make_shared<Core>(app_id, customer_id, recv_handle)) {
  Hub::get().add_customer(core_);  // Fails if there is one already, which stays.
  Hub::get().remember_customer(app_id, customer_id, this);
}

Customer::~Customer() { Hub::get().remove_customer(core_); }

int Customer::NewRequest(int recver) { return NewRequest(recver, {}); }

int Customer::NewRequest(int recver, const std::vector<int>& asked) {
  if (!used_.exchange(true)) Hub::get().open_customer(core_);  // Its handlers are set by now.
  const int group = recver;
  const auto expected = static_cast<int>(Hub::get().members(group).size());
  int timestamp = 0;
  {
    const std::lock_guard lock(core_->mutex);
    timestamp = core_->tracker.open(expected, group, asked);
  }
  // Behind open(): a death in between finds the request there.
  const auto lost = asked.empty() ? Hub::get().why_lost(group) : Hub::get().why_lost(asked);
  if (lost) {
    const std::lock_guard lock(core_->mutex);
    core_->tracker.fail(timestamp, *lost);
  }
  return timestamp;
}

void Customer::WaitRequest(int timestamp) {
  Hub& hub = Hub::get();
  std::string failure;
  const auto settled = [&] {
    const std::lock_guard lock(core_->mutex);
    const std::string* const why = core_->tracker.failure(timestamp);
    if (why != nullptr) failure = *why;
    return why != nullptr || core_->tracker.is_done(timestamp);
  };
  if (!settled()) {
    if (Crew::is_running(core_.get())) {
      LOG(FATAL) << "Wait for request " << timestamp
                 << " inside a handler or callback of the same customer would never return";
    }
    hub.flush();
    const sumcast::Duration limit = hub.settings().wait_timeout;
    const Instant begin = sumcast::net::monotonic_now();
    const Instant deadline =
        limit > sumcast::Duration{0} ? begin + limit : sumcast::Instant::never();
    for (Instant next = begin + kNoticeEvery;; next = next + kNoticeEvery) {
      if (hub.crew().wait(core_.get(), settled, std::min(deadline, next))) break;
      const std::string state = hub.describe_wait(*core_, timestamp);
      if (!hub.is_started()) {
        failure = "the job has ended (Finalize): " + state;
        break;
      }
      if (sumcast::net::monotonic_now() >= deadline) {
        failure = fmt::format("{} within {} s (SUMCAST_PS_WAIT_TIMEOUT)", state,
                              std::chrono::duration<double>(limit).count());
        break;
      }
      sumcast::runtime::log_warn(sumcast::runtime::Subsystem::kNet, "ps: Wait: {}", state);
    }
  }
  if (failure.empty()) return;
  hub.rooms().withdraw(app_id_, customer_id_, timestamp);
  LOG(FATAL) << "request " << timestamp << " has failed: " << failure;
}

int Customer::NumResponse(int timestamp) {
  const std::lock_guard lock(core_->mutex);
  return core_->tracker.responses(timestamp);
}

void Customer::AddResponse(int timestamp, int num) {
  {
    const std::lock_guard lock(core_->mutex);
    core_->tracker.add(timestamp, num);
  }
  Hub::get().crew().notify();
}

void Customer::FailRequest(int timestamp, const std::string& why) {
  {
    const std::lock_guard lock(core_->mutex);
    core_->tracker.fail(timestamp, why);
  }
  Hub::get().crew().notify();
}

void Customer::OfferRoom(int timestamp, int server_rank, const SArray<char>& room) {
  const int server = 8 + 2 * server_rank;
  Hub::get().offer_room({app_id_, customer_id_, timestamp, server}, room);
}

void Customer::BeginHandling(const Message& request) { Hub::get().before_handling(request); }
void Customer::EndHandling(const Message& request) { Hub::get().after_handling(request); }

void Customer::Accept(const Message& recved) { Hub::get().crew().deliver({core_, recved}); }

}  // namespace ps

#include "control/client_loop.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>

#include "base/assert.h"
#include "control/wording.h"
#include "runtime/clock.h"
#include "runtime/log.h"

namespace sumcast::control {

namespace {

/// The coordinator answers an overdue report within its inquiry (200 ms); then it hangs itself.
constexpr Duration kOverdueAnswerTime = 700ms;
/// The same for a group that does not open: the coordinator's deadline comes first.
constexpr Duration kOpenAnswerTime = 500ms;

}  // namespace

ClientLoop::ClientLoop(JoinedConnection connection, ClientObserver& observer, std::string where,
                       net::Poller poller, net::WakeUp wake_up)
    : tcp_(std::move(connection.tcp)),
      seal_(std::move(connection.seal)),
      welcome_(std::move(connection.welcome)),
      observer_(observer),
      where_(std::move(where)),
      poller_(std::move(poller)),
      wake_up_(std::move(wake_up)),
      next_beat_(runtime::monotonic_now()) {}

Result<void> ClientLoop::start() {
  if (auto added = poller_.add(tcp_.fd(), 0); !added) return added;
  if (auto added = poller_.add(wake_up_.fd(), 1); !added) return added;
  thread_ = std::thread([this] { run(); });
  return {};
}

ClientLoop::~ClientLoop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_up_.signal();
  if (thread_.joinable()) thread_.join();
}

// ---- the program's threads --------------------------------------------------------------------

void ClientLoop::post(ClientMessage message) {
  {
    const std::lock_guard lock(mutex_);
    outbox_.push_back(std::move(message));
  }
  wake_up_.signal();
}

Result<GroupPlan> ClientLoop::open_group(const OpenGroup& request, std::optional<GroupId> beside) {
  std::unique_lock lock(mutex_);
  if (abort_of_all_) return fail(*abort_of_all_);
  if (!requests_.emplace(request.key, Request{}).second) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("group \"{}\" is already being opened", request.key));
  }
  outbox_.push_back(request);
  wake_up_.signal();
  const auto end_of_beside = [&]() -> std::optional<Error> {
    if (!beside) return std::nullopt;
    if (const auto ended = aborts_.find(*beside); ended != aborts_.end()) return ended->second;
    if (open_groups_.contains(*beside)) return std::nullopt;
    return Error{ErrorCode::kAborted,
                 fmt::format("group \"{}\": the group it belongs to was closed", request.key)};
  };
  const auto has_answer = [&] {
    return requests_.at(request.key).answered || abort_of_all_ || end_of_beside();
  };
  answered_.wait_for(lock, request.timeout + kOpenAnswerTime, has_answer);
  const Request answer = std::move(requests_.at(request.key));
  requests_.erase(request.key);
  if (answer.refusal) return fail(*answer.refusal);
  if (answer.answered) return answer.plan;
  if (abort_of_all_) return fail(*abort_of_all_);
  if (const auto ended = end_of_beside()) return fail(*ended);
  return fail(
      ErrorCode::kTimeout,
      fmt::format("group \"{}\": the coordinator at {} does not answer", request.key, where_));
}

void ClientLoop::close_group(GroupId group) {
  {
    const std::lock_guard lock(mutex_);
    open_groups_.erase(group);
    aborts_.erase(group);
    late_.erase(group);
    answered_.notify_all();
  }
  post(CloseGroup{group});
}

std::optional<Error> ClientLoop::abort_of(GroupId group) const {
  const std::lock_guard lock(mutex_);
  const auto found = aborts_.find(group);
  if (found != aborts_.end()) return found->second;
  return abort_of_all_;
}

std::optional<Error> ClientLoop::lost() const {
  const std::lock_guard lock(mutex_);
  return lost_;
}

void ClientLoop::note_lost(const Error& error) {
  const std::lock_guard lock(mutex_);
  if (!lost_) lost_ = error;
}

void ClientLoop::report_overdue(const Overdue& overdue) {
  {
    const std::lock_guard lock(mutex_);
    if (abort_of_all_ || aborts_.contains(overdue.group)) return;
    late_.emplace(overdue.group, Late{overdue, runtime::monotonic_now() + kOverdueAnswerTime});
  }
  post(overdue);
}

bool ClientLoop::leave(Duration patience) {
  post(Leave{});
  std::unique_lock lock(mutex_);
  const Duration bounded = std::min<Duration>(patience, std::chrono::hours(24));
  answered_.wait_for(lock, bounded, [&] { return goodbye_ || ended_; });
  return goodbye_;
}

// ---- the client's thread ----------------------------------------------------------------------

void ClientLoop::run() {
  std::array<net::Event, 2> events;
  for (;;) {
    const Instant due = next_deadline();
    poller_.wait(events,
                 due == Instant::never() ? Duration::max() : due - runtime::monotonic_now());
    wake_up_.drain();
    if (!receive_all()) break;
    const Instant now = runtime::monotonic_now();
    give_up_overdue(now);
    send_all(now);
    const std::lock_guard lock(mutex_);
    if (stopping_ || goodbye_) break;
  }
  ::shutdown(tcp_.fd(), SHUT_RDWR);  // The other side need not wait for the descriptor to close.
  const std::lock_guard lock(mutex_);
  ended_ = true;
  answered_.notify_all();
}

Instant ClientLoop::next_deadline() const {
  const std::lock_guard lock(mutex_);
  Instant next = has_left_ ? Instant::never() : next_beat_;
  for (const auto& [group, late] : late_) next = std::min(next, late.give_up);
  return next;
}

/// Sends a heartbeat if it is due, and the outbox in the order in which things were said. The
/// heartbeat comes first: it takes with it what closed groups did last, which the coordinator must
/// know when a Leave comes.
void ClientLoop::send_all(Instant now) {
  std::vector<ClientMessage> messages;
  if (!has_left_ && (report_now_ || now >= next_beat_)) {
    messages.push_back(Heartbeat{report_request_, observer_.activity(), observer_.moves()});
    report_now_ = false;
    report_request_ = 0;
    next_beat_ = now + welcome_.heartbeat;
  }
  {
    const std::lock_guard lock(mutex_);
    std::ranges::move(outbox_, std::back_inserter(messages));
    outbox_.clear();
  }
  for (ClientMessage& message : messages) {
    if (auto* leave = std::get_if<Leave>(&message)) {
      leave->groups = observer_.activity();
      has_left_ = true;
    }
    tcp_.queue_frame(seal_.wrap(encode(message)));
  }
  const bool wants_write = tcp_.flush() == net::FlushVerdict::kPending;
  if (wants_write == wants_write_) return;
  wants_write_ = wants_write;
  (void)poller_.modify(tcp_.fd(), 0,
                       wants_write ? net::Interest::kReadWrite : net::Interest::kRead);
}

/// False if the connection is of no more use; all who wait have been told.
bool ClientLoop::receive_all() {
  std::string complaint;
  const net::ReadVerdict verdict = tcp_.read_frames([&](std::span<const std::byte> frame) {
    const auto body = seal_.unwrap(frame);
    if (!body) {
      complaint = "a frame does not open under the key";
      return false;
    }
    const auto message = decode_server_message(*body);
    if (!message) {
      complaint = message.error().what;
      return false;
    }
    on_message(*message);
    return true;
  });
  if (verdict == net::ReadVerdict::kOpen) return true;
  on_lost(complaint.empty() ? tcp_.failure_text() : complaint);
  return false;
}

void ClientLoop::on_message(const ServerMessage& message) {
  if (const auto* opened = std::get_if<GroupOpened>(&message)) {
    on_opened(*opened);
  } else if (const auto* refused = std::get_if<Refused>(&message)) {
    const std::lock_guard lock(mutex_);
    const auto request = requests_.find(refused->key);
    if (request == requests_.end()) return;  // Its caller has given up.
    request->second.answered = true;
    request->second.refusal = Error{refused->code, refused->text};
    answered_.notify_all();
  } else if (const auto* question = std::get_if<Describe>(&message)) {
    Description answer = observer_.describe(*question);
    answer.group = question->group;
    answer.request = question->request;
    post(std::move(answer));
  } else if (const auto* report = std::get_if<ReportNow>(&message)) {
    report_now_ = true;
    report_request_ = report->request;
  } else if (const auto* abort = std::get_if<Abort>(&message)) {
    settle_abort(abort->group, Error{abort->code, abort->text}, abort->ranks);
  } else if (const auto* left = std::get_if<Left>(&message)) {
    observer_.on_left(*left);
  } else if (const auto* waiting = std::get_if<Waiting>(&message)) {
    runtime::log_warn(runtime::Subsystem::kColl, "{}", waiting->text);
  } else if (std::holds_alternative<Goodbye>(message)) {
    const std::lock_guard lock(mutex_);
    goodbye_ = true;
    answered_.notify_all();
  }  // A second Welcome means nothing.
}

void ClientLoop::on_opened(const GroupOpened& opened) {
  const std::lock_guard lock(mutex_);
  const auto request = requests_.find(opened.key);
  if (request == requests_.end()) {  // Its caller has given up: we are no member any more.
    outbox_.push_back(CloseGroup{opened.group});
    return;
  }
  open_groups_.insert(opened.group);
  request->second.answered = true;
  request->second.plan =
      GroupPlan{welcome_.incarnation, opened.group,      opened.key,           opened.ranks,
                opened.slot_base,     opened.slot_count, opened.payload_bytes, opened.hosts};
  answered_.notify_all();
}

/// The first reason stands; what is not open here is nobody's concern.
void ClientLoop::settle_abort(std::optional<GroupId> group, const Error& error,
                              const std::vector<Rank>& ranks) {
  {
    const std::lock_guard lock(mutex_);
    if (group) {
      if (!open_groups_.contains(*group) || !aborts_.emplace(*group, error).second) return;
      late_.erase(*group);
    } else {
      if (abort_of_all_) return;
      abort_of_all_ = error;
      late_.clear();
    }
    answered_.notify_all();
  }
  observer_.on_abort(group, error, ranks);
}

/// Reports that the coordinator has not answered: the groups end all the same.
void ClientLoop::give_up_overdue(Instant now) {
  std::vector<Overdue> given_up;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [group, late] : late_) {
      if (now >= late.give_up) given_up.push_back(late.overdue);
    }
  }
  for (const Overdue& late : given_up) {
    const Error error{ErrorCode::kTimeout,
                      fmt::format("{}: timed out after {}; the coordinator at {} did not say who "
                                  "is missing",
                                  operation_text(late.operation, late.sequence, late.group),
                                  span_text(late.waited), where_)};
    note_lost(error);
    settle_abort(late.group, error, {});
  }
}

void ClientLoop::on_lost(const std::string& how) {
  {
    const std::lock_guard lock(mutex_);
    if (goodbye_) return;
  }
  if (has_left_) return;
  const Error error{ErrorCode::kAborted,
                    fmt::format("the coordinator at {} is gone: {}", where_, how)};
  note_lost(error);
  settle_abort(std::nullopt, error, {});
}

}  // namespace sumcast::control

// The front of the client: joining, and handing calls to the loop.
#include "control/client.h"

#include "control/client_join.h"
#include "control/client_loop.h"

namespace sumcast::control {

Result<std::unique_ptr<ControlClient>> ControlClient::join(const JoinOptions& options,
                                                           ClientObserver& observer) {
  auto poller = net::Poller::create();
  if (!poller) return fail(std::move(poller.error()));
  auto wake_up = net::WakeUp::create();
  if (!wake_up) return fail(std::move(wake_up.error()));
  auto connection = join_coordinator(options);
  if (!connection) return fail(std::move(connection.error()));
  auto loop =
      std::make_unique<ClientLoop>(std::move(*connection), observer, options.coordinator.text(),
                                   std::move(*poller), std::move(*wake_up));
  if (auto started = loop->start(); !started) return fail(std::move(started.error()));
  return std::unique_ptr<ControlClient>(new ControlClient(std::move(loop)));
}

ControlClient::ControlClient(std::unique_ptr<ClientLoop> loop) : loop_(std::move(loop)) {}

ControlClient::~ControlClient() = default;

const Welcome& ControlClient::welcome() const { return loop_->welcome(); }

Result<GroupPlan> ControlClient::open_group(const OpenGroup& request,
                                            std::optional<GroupId> beside) {
  return loop_->open_group(request, beside ? beside : request.leaders_of);
}

void ControlClient::close_group(GroupId group) { loop_->close_group(group); }

std::optional<Error> ControlClient::abort_of(GroupId group) const { return loop_->abort_of(group); }
std::optional<Error> ControlClient::lost() const { return loop_->lost(); }

void ControlClient::report_overdue(const Overdue& overdue) { loop_->report_overdue(overdue); }

void ControlClient::give_up(GroupId group, const Error& why) {
  loop_->post(GiveUp{group, why.code, why.what});
}

void ControlClient::report_mismatch(const Mismatch& mismatch) { loop_->post(mismatch); }

bool ControlClient::leave(Duration patience) { return loop_->leave(patience); }

}  // namespace sumcast::control

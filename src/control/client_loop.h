// The thread behind ControlClient. Inside the room only.
//
// One mutex guards what the program's threads and this one share: the outbox, the requests that
// wait for an answer, and the aborts so far. It is never held during a call to the observer.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "control/client.h"
#include "control/client_join.h"
#include "net/poll.h"

namespace sumcast::control {

class ClientLoop {
 public:
  ClientLoop(JoinedConnection connection, ClientObserver& observer, std::string where,
             net::Poller poller, net::WakeUp wake_up);
  ~ClientLoop();
  Result<void> start();

  const Welcome& welcome() const { return welcome_; }
  Result<GroupPlan> open_group(const OpenGroup& request, std::optional<GroupId> beside);
  void close_group(GroupId group);
  std::optional<Error> abort_of(GroupId group) const;
  std::optional<Error> lost() const;
  void report_overdue(const Overdue& overdue);
  void post(ClientMessage message);
  bool leave(Duration patience);

 private:
  /// An open_group that waits, and its answer once there is one.
  struct Request {
    bool answered = false;
    GroupPlan plan;
    std::optional<Error> refusal;
  };
  /// A report of lateness that waits for its abort.
  struct Late {
    Overdue overdue;
    Instant give_up;
  };

  void run();
  void send_all(Instant now);
  bool receive_all();
  void on_message(const ServerMessage& message);
  void on_opened(const GroupOpened& opened);
  void settle_abort(std::optional<GroupId> group, const Error& error,
                    const std::vector<Rank>& ranks);
  void give_up_overdue(Instant now);
  void on_lost(const std::string& how);
  void note_lost(const Error& error);
  Instant next_deadline() const;

  // The client thread's own.
  net::TcpConnection tcp_;
  FrameSeal seal_;
  const Welcome welcome_;
  ClientObserver& observer_;
  const std::string where_;
  net::Poller poller_;
  net::WakeUp wake_up_;
  Instant next_beat_;
  uint32_t report_request_ = 0;  // A ReportNow to be answered by the next heartbeat.
  bool report_now_ = false;
  bool wants_write_ = false;
  bool has_left_ = false;

  mutable std::mutex mutex_;
  std::condition_variable answered_;
  std::vector<ClientMessage> outbox_;
  std::map<std::string, Request> requests_;  // By key.
  std::set<GroupId> open_groups_;
  std::map<GroupId, Error> aborts_;    // Of open groups.
  std::optional<Error> abort_of_all_;  // Also if the connection is lost.
  std::optional<Error> lost_;          // The coordinator is gone, or does not answer.
  std::map<GroupId, Late> late_;
  bool goodbye_ = false;
  bool ended_ = false;  // The thread does nothing any more.
  bool stopping_ = false;

  std::thread thread_;
};

}  // namespace sumcast::control

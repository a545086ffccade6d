// sumcastd as an object: shard threads, the coordinator and the status pages, wired together.
//
//     worker --TCP--> CoordinatorServer --plans--> Daemon --commands--> ShardThread 0..n-1
//            --UDP------------------------------------------------------^
//     people --HTTP-> HttpServer --> pages of what all of these report
//
// The one rule between them: a group's members hear of it only after every shard thread knows it,
// or their first datagrams would be of a group that is closed. So the coordinator's thread waits,
// here, until all threads have done what it told them; they in turn never wait for the coordinator.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/server.h"
#include "daemon/command_line.h"
#include "daemon/http_server.h"
#include "daemon/pages.h"
#include "daemon/shard_thread.h"

namespace sumcast::daemon {

class Daemon final : private control::JobObserver {
 public:
  /// Opens all ports and serves. Errors: kUnavailable (a port is taken; names the owner), kSystem,
  /// kUnsupported (see ShardThread::start).
  static Result<std::unique_ptr<Daemon>> start(DaemonOptions options);
  ~Daemon() override;

  const net::Endpoint& listen() const { return server_->endpoint(); }
  /// "127.0.0.1:4701", empty without status pages.
  const std::string& http() const { return http_text_; }
  std::vector<std::string> shards() const;

  /// Tells all members that the daemon goes, waits for that 300 ms at most, and closes the ports.
  /// Once; the pages then say that it is not ready.
  void stop();

  /// What the pages show, as of now. Any thread.
  DaemonFacts facts();

 private:
  explicit Daemon(DaemonOptions options);

  Result<void> open_threads(bool any_ports);
  Result<void> start_server();
  void serve_pages();
  HttpPage health_page();
  HttpPage ready_page();
  bool wait_for_threads(const std::vector<ShardThread::Ticket>& tickets, Duration patience);
  void report_mismatch(Incarnation incarnation, const control::Mismatch& mismatch);

  // JobObserver, on the coordinator's thread.
  void job_started(const control::JobPlan& plan) override;
  void group_opened(const control::GroupPlan& plan) override;
  void group_closed(Incarnation incarnation, GroupId group) override;
  void job_ended(Incarnation incarnation) override;
  template <typename Post>
  void on_all_threads(const char* what, Post post);

  DaemonOptions options_;
  Instant started_;
  std::string http_text_;
  std::atomic<bool> is_ready_ = false;
  std::mutex server_mutex_;  // Held while server_ is being made: a mismatch may come early.
  std::vector<std::unique_ptr<ShardThread>> threads_;
  std::unique_ptr<control::CoordinatorServer> server_;  // Calls threads_ until it has stopped.
  std::unique_ptr<HttpServer> http_;                    // Last, so that it stops first.
};

}  // namespace sumcast::daemon

// A job of real processes on loopback, for the tests of this folder.
#pragma once

#include <string>
#include <vector>

#include "lab/process.h"

namespace pstest {

using Environment = std::vector<std::string>;

/// Under a sanitizer programs take about three times as long, and what it looks for shows in one
/// run as in another: tests that kill at several moments take every third of them.
#ifdef PS_TEST_SANITIZED
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif
inline constexpr unsigned kSeedStep = kIsSanitized ? 3 : 1;

/// Its processes end with it. For one thread.
class Job {
 public:
  /// @param workers    DMLC_NUM_WORKER.
  /// @param more       "NAME=value" for all processes.
  Job(int servers, int workers, Environment more = {});
  ~Job();

  /// Starts one process of a role; returns its index.
  size_t add(const std::string& role, const std::vector<std::string>& command,
             const Environment& more = {});
  /// Starts the scheduler, all servers and so many workers.
  void add_all(const std::vector<std::string>& command, int worker_processes);

  sumcast::lab::Process& process(size_t index) { return processes_[index]; }
  /// What a process has written, to standard output and error.
  std::string output(size_t index) const;
  /// Waits until the process has written `text`; false after 20 s.
  bool saw(size_t index, const std::string& text) const;
  /// Waits for one, at most 60 s; its status, or -1.
  int wait(size_t index);
  /// Fails the test unless all end with code 0 within 60 s; prints the output of those that do not.
  void expect_success();

  int port() const { return port_; }
  size_t size() const { return processes_.size(); }

 private:
  std::string file(size_t index) const;

  Environment environment_;
  std::string folder_;
  int port_;
  std::vector<sumcast::lab::Process> processes_;
};

/// A path for a file of this process's tests.
std::string own_file(const std::string& name);

/// The path of a test program by the name of its target.
std::string program(const std::string& name);

}  // namespace pstest

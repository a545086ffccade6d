// Where a bench takes place: the cluster, the key that its programs share, and the daemons.
//
// Everything goes away with this object, and with the program if it is killed (lab/cluster.h). Only
// a scratch directory could be left by SIGKILL, and only while programs are starting: it is removed
// as soon as all have read what is in it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/bench_plan.h"
#include "lab/cluster.h"
#include "lab/process.h"

namespace sumcast::cli {

/// A private directory that is removed with everything in it.
class ScratchDirectory {
 public:
  static Result<ScratchDirectory> create();
  ScratchDirectory(ScratchDirectory&& other) noexcept : path_(std::move(other.path_)) {
    other.path_.clear();
  }
  ScratchDirectory& operator=(ScratchDirectory&&) = delete;
  ~ScratchDirectory();
  const std::string& path() const { return path_; }

 private:
  explicit ScratchDirectory(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

/// The running program, and the directory in which it and its siblings are.
std::string program_path();
std::string program_directory();
/// Full path of a program of this build; kUnavailable, saying what would build it, if it is not
/// there.
Result<std::string> sibling_program(const std::string& name);

class BenchSite {
 public:
  /// Builds the cluster, or falls back to loopback with a line on standard error.
  static Result<std::unique_ptr<BenchSite>> create(const BenchPlan& plan);

  const BenchPlan& plan() const { return plan_; }
  lab::Cluster& cluster() { return cluster_; }
  const std::string& key_file() const { return key_file_; }  ///< Empty if insecure.

  /// "address:port" of the daemon on the aggregator, or of the one that plays a server; started
  /// when first asked for.
  Result<std::string> daemon_address(bool on_server);
  /// A port that nothing uses on that node yet, for the caller to give to one program; `count`
  /// neighbours are free too.
  uint16_t next_port(uint16_t count = 1);
  /// Removes the key file: every program that needs it has started.
  void forget_key_file() { scratch_.reset(); }
  /// If a daemon has ended, how.
  std::optional<Error> daemon_failure();

 private:
  BenchSite(const BenchPlan& plan, lab::Cluster cluster)
      : plan_(plan), cluster_(std::move(cluster)) {}

  Result<lab::Process> start_daemon(lab::Node node, const std::string& address);

  struct Daemon {
    std::string address;
    lab::Process process;
  };

  BenchPlan plan_;
  lab::Cluster cluster_;
  std::optional<ScratchDirectory> scratch_;
  std::string key_file_;
  std::optional<Daemon> daemon_, server_;
  uint16_t next_port_ = 0;
};

}  // namespace sumcast::cli

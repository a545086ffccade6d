// One process of the demo's crew, and what can be said about its end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/demo_messages.h"
#include "lab/cluster.h"
#include "lab/process.h"

namespace sumcast::cli {

/// How far a worker has come.
enum class Stage : uint8_t { kStarting, kReady, kTrained };

struct Member {
  std::string name;  ///< "worker 2", "sumcastd".
  lab::Process process;
  std::string log;  ///< File of its standard error.
  Stage stage = Stage::kStarting;
  std::optional<WorkerResult> result;
  std::string complaint;                 ///< Why it failed, in its own words.
  std::optional<lab::ExitStatus> ended;  ///< Set once it has ended.

  bool troubled() const { return ended.has_value() || !complaint.empty(); }
  /// "worker 2 died: signal 9 (Killed); its last words: ...", one line. It must be troubled.
  std::string obituary() const;
};

/// Starts `command` on `node`, its input and output piped and its errors in a file of `directory`.
Result<Member> start_member(const lab::Cluster& cluster, lab::Node node, const std::string& name,
                            const std::vector<std::string>& command, const std::string& directory);

}  // namespace sumcast::cli

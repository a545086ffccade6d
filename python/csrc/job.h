// Handles of the C API with owners, and what all operations of a process group share.
#pragma once

#include <sumcast/sumcast.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace sumcast_torch {

/// Where and with what key ranks meet; texts that are empty are left to the configuration.
struct Meeting {
  std::string job, aggregator, coordinator, key_file;
  std::string key;  ///< 32 bytes, or empty.
  bool insecure = false;
  std::function<void(const std::string&)> on_listening;  ///< Rank 0 without an aggregator.
};

/// Gives `join` what the C API needs to meet the others; throws what `on_listening` threw behind
/// it.
/// @return where the job met, for error texts.
std::string meet(const Meeting& meeting, uint32_t rank, uint32_t world,
                 std::chrono::milliseconds timeout,
                 const std::function<void(const sumcast_options*)>& join);

/// This process's membership, shared by the process groups made from it; the last one leaves.
class Job {
 public:
  /// Blocks until all ranks have joined. Throws std::runtime_error with one line.
  /// @param ranks  global ranks of torch.distributed, by rank of the job.
  Job(const Meeting& meeting, uint32_t rank, std::vector<uint64_t> ranks,
      std::chrono::milliseconds timeout);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  sumcast_context* context() const { return context_; }
  const std::vector<uint64_t>& ranks() const { return ranks_; }
  /// Where the job met, for error texts.
  const std::string& where() const { return where_; }
  /// Places in the job of these global ranks; nullopt if one is not in it.
  std::optional<std::vector<uint32_t>> places_of(const std::vector<uint64_t>& ranks) const;

 private:
  sumcast_context* context_ = nullptr;
  std::vector<uint64_t> ranks_;
  std::string where_;
  int pid_;
};

/// Operations of one kind, for stats().
struct OperationTotals {
  uint64_t count = 0, failed = 0, bytes = 0;
  double seconds = 0;  ///< From call to completion as seen by the process, summed.
};

/// One group. Shared by the backend and the works that are under way.
class Group {
 public:
  /// Opens it together with its other members; all ranks of the job if `places` is nullopt.
  static std::shared_ptr<Group> open(std::shared_ptr<Job> job,
                                     const std::optional<std::vector<uint32_t>>& places,
                                     const std::string& key, std::chrono::milliseconds limit);
  Group(std::shared_ptr<Job> job, const std::optional<std::vector<uint32_t>>& places,
        const std::string& key, std::chrono::milliseconds limit);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  /// nullptr once it was closed, or in a forked process. Who holds it may go on using it though
  /// another thread closes the group meanwhile.
  std::shared_ptr<sumcast_group> handle() const;
  std::shared_ptr<Job> job() const;  ///< Likewise.
  const std::string& key() const { return key_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  /// Gives up the group, and the job if it was its last. No operation may be under way.
  void close();
  /// Places in the job of these places of the group.
  std::vector<uint32_t> places(const std::vector<uint64_t>& of) const;
  /// A data loader's worker, forked from the process that joined?
  bool is_forked() const;

  void count(const std::string& operation, uint64_t bytes, double seconds, bool failed);
  std::map<std::string, OperationTotals> totals() const;

  std::atomic<int64_t> timeout_ms;

 private:
  std::optional<std::vector<uint32_t>> places_;  // In the job; none: all of it.
  std::string key_;
  int rank_ = 0, size_ = 1;
  int pid_;
  mutable std::mutex mutex_;  // Guards what follows.
  std::shared_ptr<Job> job_;
  std::shared_ptr<sumcast_group> handle_;
  std::map<std::string, OperationTotals> totals_;
};

/// Groups of this process that are alive, for stats().
std::vector<std::shared_ptr<Group>> living_groups();

using NativeWork = std::shared_ptr<sumcast_work>;

}  // namespace sumcast_torch

// An operation under way, as torch.distributed sees it.
//
// Who completes it. Nobody has to: the library moves the data by itself, and a result that needs
// unpacking (a strided tensor, a list of tensors) is unpacked by the first who looks, be it wait(),
// is_completed(), or the completion threads on behalf of a future. A caller that waits drives the
// library itself, so a blocking collective costs no context switch.
#pragma once

#include <ATen/core/ivalue.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "job.h"

namespace sumcast_torch {

class Completion;

/// What an operation consists of.
struct Parts {
  c10d::OpType type = c10d::OpType::UNKNOWN;
  std::string operation;  ///< "all_reduce"
  std::string name;       ///< "all_reduce #12 of group \"0\" (rank 1 of 4)"
  uint64_t sequence = 0;
  uint64_t bytes = 0;               ///< Of the tensors of this rank, for stats.
  bool is_message = false;          ///< An exchange: its end is called back.
  bool is_continued = false;        ///< A piece of an operation, behind its first.
  std::vector<at::Tensor> inputs;   ///< For the profiler; kept until the end.
  std::vector<at::Tensor> outputs;  ///< What result() and the future give.
  std::vector<at::Tensor> kept;     ///< Buffers that the library uses.
  std::function<void()> unpack;     ///< After success: results to where they belong.
};

class SumcastWork final : public c10d::Work {
 public:
  /// @param limit_ms  of this call; who only polls is held to it too.
  SumcastWork(std::shared_ptr<Group> group, std::shared_ptr<Completion> completion, int rank,
              Parts parts, int64_t limit_ms);

  /// The library has begun it. Called once, before the work is handed out.
  void begin(std::vector<NativeWork> natives);
  /// A thread of ours performs it instead, and says so when it has ended.
  void begin_elsewhere();
  void end(std::exception_ptr failure);

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  int sourceRank() const override;
  std::vector<at::Tensor> result() override;
  void synchronize() override;
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  void abort() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  uint64_t getSequencenumber() const override { return parts_.sequence; }

  /// Waits for the end, and swallows how it was.
  void settle(int64_t timeout_ms);
  bool is_message() const { return parts_.is_message; }
  /// Has the library ended it? Does not wait or unpack.
  bool is_ended();
  /// Is it completed? Takes no lock.
  bool is_over() const { return over_; }
  /// Has the library ended it, with no future that a completion thread looks after?
  bool is_forgotten();

 private:
  std::vector<NativeWork> natives() const;
  void complete(std::exception_ptr failure);
  std::exception_ptr failure_of(int code, const std::string& text) const;

  Parts parts_;
  std::shared_ptr<Group> group_;            // Until completed.
  std::shared_ptr<Completion> completion_;  // Until completed.
  std::vector<NativeWork> natives_;         // Until completed.
  std::atomic<bool> over_{false};           // completed_, to be read without the lock.
  bool external_ = false;
  bool completing_ = false;
  int source_ = -1;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  const std::chrono::steady_clock::time_point started_;
  const std::chrono::steady_clock::time_point overdue_;
};

/// The error that torch.distributed users catch (DistBackendError), with one line.
std::exception_ptr backend_error(const std::string& text);
/// What an error says, without the backtrace that c10's bring.
std::string one_line(const std::exception& error);

}  // namespace sumcast_torch

// The process group of torch.distributed: what each of its calls means for the library.
//
// Collectives that reduce, gather to all, or broadcast are the library's own and go in call order.
// gather, scatter, all-to-all and point to point are messages (an exchange); what they carry is
// tagged with the operation's number, so that they are not ordered with anything. A coalesced call
// is several operations with one Work. Calls on tensors of an accelerator, and those behind them,
// take a line (staging.h), which makes the same call again on twins in host memory.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "completion.h"
#include "job.h"
#include "lanes.h"
#include "staging.h"
#include "work.h"

namespace sumcast_torch {

class SumcastBackend final : public c10d::Backend {
 public:
  explicit SumcastBackend(std::shared_ptr<Group> group);
  ~SumcastBackend() override;

  const std::string getBackendName() const override { return "sumcast"; }
  c10::intrusive_ptr<Options> getBackendOptions() override;
  bool supportsSplitting() const override { return true; }
  bool supportsCoalescing() const override { return true; }
  void setTimeout(std::chrono::milliseconds timeout) override;
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override;
  c10d::ErrorType getError() override;
  void abort() override;
  /// What destroy_process_group() calls: leaves the group, and the job with its last group, though
  /// Python may hold on to this object.
  void shutdown() override;
  c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store>& store,
                                          const std::vector<int>& ranks,
                                          const c10::intrusive_ptr<Options>& options) override;

  // backend_dense.cc
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allreduce_coalesced(
      std::vector<at::Tensor>& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  c10::intrusive_ptr<c10d::Work> reduce(std::vector<at::Tensor>& tensors,
                                        const c10d::ReduceOptions& options) override;
  c10::intrusive_ptr<c10d::Work> reduce_scatter(std::vector<at::Tensor>& outputs,
                                                std::vector<std::vector<at::Tensor>>& inputs,
                                                const c10d::ReduceScatterOptions& options) override;
  c10::intrusive_ptr<c10d::Work> _reduce_scatter_base(
      at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) override;
  c10::intrusive_ptr<c10d::Work> reduce_scatter_tensor_coalesced(
      std::vector<at::Tensor>& outputs, std::vector<at::Tensor>& inputs,
      const c10d::ReduceScatterOptions& options) override;

  // backend_gather.cc
  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allgather(std::vector<std::vector<at::Tensor>>& outputs,
                                           std::vector<at::Tensor>& inputs,
                                           const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor& output, at::Tensor& input,
                                                 const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allgather_coalesced(
      std::vector<std::vector<at::Tensor>>& outputs, std::vector<at::Tensor>& inputs,
      const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allgather_into_tensor_coalesced(
      std::vector<at::Tensor>& outputs, std::vector<at::Tensor>& inputs,
      const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions& options) override;

  // backend_messages.cc
  c10::intrusive_ptr<c10d::Work> gather(std::vector<std::vector<at::Tensor>>& outputs,
                                        std::vector<at::Tensor>& inputs,
                                        const c10d::GatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> scatter(std::vector<at::Tensor>& outputs,
                                         std::vector<std::vector<at::Tensor>>& inputs,
                                         const c10d::ScatterOptions& options) override;
  c10::intrusive_ptr<c10d::Work> alltoall_base(at::Tensor& output, at::Tensor& input,
                                               std::vector<int64_t>& output_splits,
                                               std::vector<int64_t>& input_splits,
                                               const c10d::AllToAllOptions& options) override;
  c10::intrusive_ptr<c10d::Work> alltoall(std::vector<at::Tensor>& outputs,
                                          std::vector<at::Tensor>& inputs,
                                          const c10d::AllToAllOptions& options) override;

  // backend_points.cc
  c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor>& tensors, int to, int tag) override;
  c10::intrusive_ptr<c10d::Work> recv(std::vector<at::Tensor>& tensors, int from, int tag) override;
  c10::intrusive_ptr<c10d::Work> recvAnysource(std::vector<at::Tensor>& tensors, int tag) override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;

  // backend_sparse.cc
  c10::intrusive_ptr<c10d::Work> allreduce_sparse(std::vector<at::Tensor>& tensors,
                                                  const c10d::AllreduceOptions& options) override;

  // coalescing.cc: operations between these two are begun as they come and share one Work.
  void startCoalescing() override;
  c10::intrusive_ptr<c10d::Work> endCoalescing() override;

 private:
  /// One call of the library; returns its code. `work` is to be filled.
  using Call = std::function<int(sumcast_group*, const sumcast_call*, sumcast_work** work)>;
  /// Messages of an exchange, gathered before it begins.
  struct Mail {
    std::vector<sumcast_message> sends, receives;
    std::vector<at::Tensor> kept;                           ///< Whose memory they are in.
    std::vector<std::pair<at::Tensor, at::Tensor>> unpack;  ///< Target, buffer.

    void send(const at::Tensor& tensor, int to, uint32_t check, uint64_t tag);
    void receive(const at::Tensor& tensor, uint32_t from, uint32_t check, uint64_t tag);
  };

  /// Holds the lock while an operation is numbered and begun. Behind it, works that have ended are
  /// let go: dropping a tensor may need Python's lock.
  class Turn {
   public:
    explicit Turn(SumcastBackend& backend);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    SumcastBackend& backend_;
  };

  // backend_staged.cc
  using StagedCall = std::function<c10::intrusive_ptr<c10d::Work>(Twins& reads, Twins& writes)>;
  /// Does a call on these go through the line: on a device, or behind calls that wait there?
  template <typename... Some>
  bool must_stage(const Some&... tensors) const {
    return (is_off_host(tensors) || ...) || (!line_->is_here() && line_->waiting() > 0);
  }
  bool must_stage_message(const at::Tensor& tensor) const {
    return !tensor.is_cpu() || (!mail_line_->is_here() && mail_line_->waiting() > 0);
  }
  static bool is_off_host(const at::Tensor& tensor) { return !tensor.is_cpu(); }
  template <typename Some>
  static bool is_off_host(const std::vector<Some>& list) {
    for (const Some& one : list) {
      if (is_off_host(one)) return true;
    }
    return false;
  }
  /// @param divisible  see Cargo.
  c10::intrusive_ptr<c10d::Work> stage(c10d::OpType type, const char* operation, Twins reads,
                                       Twins writes, Twins outputs,
                                       std::chrono::milliseconds timeout, StagedCall call,
                                       bool divisible = false);
  void end_lines(const std::string& why, std::chrono::milliseconds patience);

  void check_usable() const;
  void check_root(int64_t root, const char* operation) const;
  Parts parts(c10d::OpType type, const char* operation, std::vector<at::Tensor> inputs,
              std::vector<at::Tensor> outputs);
  /// Notes what this rank calls, so that others which call something else are noticed.
  /// @param call  equal on all ranks. @return the tag of its messages; their part may be added.
  uint64_t note_call(uint64_t sequence, const std::string& call) const;
  Parts message_parts(c10d::OpType type, const char* operation,
                      const std::vector<at::Tensor>& tensors, int peer, int tag);
  std::string place_text() const;
  int64_t limit(std::chrono::milliseconds timeout) const;
  c10::intrusive_ptr<SumcastWork> start(Parts parts, const std::vector<Call>& calls,
                                        std::chrono::milliseconds timeout);
  c10::intrusive_ptr<c10d::Work> start_mail(Parts parts, Mail mail,
                                            std::chrono::milliseconds timeout);
  /// For all-gather and reduce-scatter with a flat tensor each: one call per pair.
  Call gather_call(const at::Tensor& output, const at::Tensor& input, Parts& parts);
  Call deal_call(const std::vector<at::Tensor>& outputs, const at::Tensor& input, Parts& parts);
  Call scatter_call(const at::Tensor& output, const at::Tensor& input, const Arithmetic& arithmetic,
                    Parts& parts);
  Call reduce_call(const at::Tensor& tensor, const Arithmetic& arithmetic, Parts& parts);
  void keep(const c10::intrusive_ptr<SumcastWork>& work);
  void end_all(const char* why, std::chrono::milliseconds patience);

  std::shared_ptr<Group> group_;
  std::shared_ptr<Completion> completion_ = std::make_shared<Completion>();
  std::shared_ptr<Line> line_, mail_line_;  // Collectives; point to point, which has its own order.

  const std::string where_;  // Of the job, for error texts.
  std::mutex mutex_;  // Numbers operations and begins them in one step, so that all ranks agree.
  uint64_t sequence_ = 0;
  uint64_t messages_ = 0;                                // Point to point, this rank's own.
  std::deque<c10::intrusive_ptr<SumcastWork>> pending_;  // Begun; kept alive until they end.
  std::vector<c10::intrusive_ptr<SumcastWork>> ended_;   // For the end of a turn.
  bool coalescing_ = false;
  std::vector<c10::intrusive_ptr<c10d::Work>> coalesced_;
};

}  // namespace sumcast_torch

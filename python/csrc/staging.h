// Tensors of an accelerator, through pinned memory of the host.
//
// The library adds what lies in host memory. A call on tensors of a device is therefore performed
// on twins of them in pinned memory: copied in before it, copied back after it, on two streams of
// ours, one for each direction. Everything goes through c10's own abstraction of streams and
// events, so one code serves every device that has them (cuda, xpu, privateuseone), and nothing of
// it needs that device's headers.
//
// A line takes the calls of one group in their order and begins them, on a thread of its own: when
// the caller's stream has come to where the call was made, and the copy has arrived. Calls on CPU
// tensors that follow go through the line too, since all ranks must begin in one order; a group
// that never sees a device has no line and no thread.
//
// What works element by element goes in pieces, so that copying in, the network, and copying back
// overlap:
//
//     copy in      0 1 2 3
//     network        0 1 2 3
//     copy back        0 1 2 3
//
// A sum does not depend on how it is cut (docs/numerics.md, N1; pieces are whole blocks of 256
// elements), and the cut depends on size and type alone, which are equal on all ranks.
//
// Host memory, events and tensors are held until the device is done with them; nothing is left to a
// stream that could outlive an abort: while a call waits for the caller's stream nothing of it is
// queued on the device, and copies that are queued wait for nothing but earlier copies. Unless the
// user wants calls to be queued ahead (staging_ahead.cc).
#pragma once

#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace sumcast_torch {

class Completion;

using Twins = std::vector<at::Tensor>;

/// A call on tensors of one device, or of the CPU behind such calls.
struct Cargo {
  c10d::OpType type = c10d::OpType::UNKNOWN;
  std::string name;  ///< For errors before the library knows of it.
  Twins reads;       ///< Copied to the host before the call.
  Twins writes;   ///< Copied back after it. A tensor may be in both lists, and has one twin then.
  Twins outputs;  ///< What result() and the future give.
  /// One tensor in all, whose elements do not depend on each other: may go in pieces, each a call.
  bool divisible = false;
  /// Ranks make such calls in one order; may be queued on the device when it is made.
  bool may_queue_ahead = false;
  int64_t limit_ms = 0;
  /// Begins it on the twins, in the lists' order. Runs on the line's thread; may throw.
  std::function<c10::intrusive_ptr<c10d::Work>(Twins& reads, Twins& writes)> call;
};

/// What all lines of this process have copied. Seconds are the device's own, 0 where it has no
/// clock.
struct StagingTotals {
  uint64_t operations = 0, bytes_in = 0, bytes_out = 0;
  double seconds_in = 0, seconds_out = 0;
};
StagingTotals staging_totals();

/// Has this device streams and events, as tensors are staged with?
bool is_stageable(c10::Device device);

class StagedWork;

class Line : public std::enable_shared_from_this<Line> {
 public:
  /// How long an abort waits for the library and the device to let go of tensors; only a device
  /// that hangs takes so long.
  static constexpr std::chrono::seconds kFence{30};

  /// @param abort_group  ends the group on all ranks, for this reason; any thread, does not wait.
  /// @param completion   whose threads run callbacks that would run on the line's own, which begins
  ///                     what they may wait for.
  Line(std::function<void(const std::string& why)> abort_group,
       std::shared_ptr<Completion> completion);
  ~Line();
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  c10::intrusive_ptr<c10d::Work> submit(Cargo cargo);
  /// How many calls wait to be begun.
  uint64_t waiting() const { return waiting_; }
  /// Until none waits to be begun, or `limit` has passed.
  bool wait_until_begun(std::chrono::milliseconds limit);
  /// Until all have ended, well or not, or `limit` has passed.
  bool wait_until_ended(std::chrono::milliseconds limit);
  /// Also for the copies of calls that are over.
  bool wait_until_left(std::chrono::milliseconds limit);
  /// All calls fail, those that wait to be begun here and now; those begun as soon as the library
  /// lets go of them. Later ones are refused.
  void fail_all(const std::string& why);
  /// Behind wait_until_ended(): ends the thread.
  void stop();

  /// Is this a line's thread? Calls made there begin at once.
  bool is_here() const { return here_ == this; }
  /// Which piece of its call a line's thread begins; 0 elsewhere.
  static uint32_t piece() { return piece_; }

 private:
  struct Job;
  struct Slot;
  /// One device's streams: to the host, and back.
  struct Lane {
    c10::Stream in, out;
  };
  struct Trip;
  using SharedEvent = std::shared_ptr<c10::Event>;

  void serve();
  void carry(const std::shared_ptr<Job>& job);
  void make_twins(Job& job);
  void flatten(Job& job);
  void carry_whole(const std::shared_ptr<Job>& job);
  void carry_pieces(const std::shared_ptr<Job>& job);
  void wait_for(Job& job, c10::Event& event);
  SharedEvent load(Job& job, const at::Tensor& from, const at::Tensor& to);
  SharedEvent store(Job& job, const at::Tensor& from, const at::Tensor& to);
  std::shared_ptr<Slot> take_slot(Job& job, bool patient);
  void begin(const std::shared_ptr<Job>& job, uint32_t piece, Twins reads, Twins writes);
  void ended(Job& job, uint32_t piece, const Twins& host, const c10d::Work& work,
             const c10::ivalue::Future& future);
  void land(Job& job, uint32_t piece, const Twins& host);
  void fail(Job& job, std::exception_ptr failure);
  void close(Job& job);
  void settle(Job& job);
  // staging_ahead.cc
  bool queue_ahead(Job& job);
  uint32_t lay_out_ahead(Job& job);
  void load_ahead(Job& job, uint32_t piece);
  void store_ahead(Job& job, uint32_t piece);
  void carry_ahead(const std::shared_ptr<Job>& job);
  static void open_word(Job& job, uint32_t piece);
  static void open_words(Job& job);
  void finish_if_over(const std::shared_ptr<Job>& job);
  void retire(bool patient);
  const Lane& lane_of(const Job& job);
  void throw_if_failed() const;

  static thread_local const Line* here_;
  static thread_local uint32_t piece_;

  const std::function<void(const std::string&)> abort_group_;
  const std::shared_ptr<Completion> completion_;
  std::mutex ahead_mutex_;  // Calls that are queued ahead: one after the other. Before mutex_.
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Job>> queue_;
  std::deque<std::shared_ptr<Job>> leaving_;  // Over; the device may still copy.
  std::vector<std::shared_ptr<Slot>> free_;
  /// By device, all of one type, and whether for calls that are queued ahead.
  std::map<std::pair<c10::DeviceIndex, bool>, Lane> lanes_;
  std::atomic<uint64_t> waiting_{0};
  uint64_t open_ = 0;  // Not over.
  uint32_t slots_ = 0;
  bool failed_ = false, stopping_ = false;
  std::string why_;
  std::thread thread_;
};

}  // namespace sumcast_torch

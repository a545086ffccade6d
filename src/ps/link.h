// One connection to another node: frames out from any thread, frames in for the leader.
//
// Sending appends to a queue and, when it is time, writes all of it with one system call. Small
// arrays are copied into the queue, large ones stay where they are and are written from there.
// One thread writes at a time; what others append meanwhile it takes along.
//
// Receiving reads many small frames at once, and a large one straight into the memory in which its
// arrays will be used.
//
// Where both ends have the job's key, frames are sealed as they are written, and checked as they
// are read: no call does all of a large one's work at once.
//
// It does not know what frames mean.
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "auth/control_seal.h"
#include "net/tcp.h"
#include "ps/frame.h"
#include "ps/large_frame.h"
#include "ps/piece.h"
#include "ps/resend.h"
#include "ps/sealed_out.h"
#include "ps/send_queue.h"

namespace sumcast::ps {

/// Arrays up to this size are copied when they are sent: a part of a system call's list costs more.
inline constexpr size_t kCopiedMax = 2048;

enum class WriteVerdict : uint8_t {
  kDrained = 0,  ///< All is in the kernel's hands, or another thread is seeing to it.
  kPending = 1,  ///< The peer does not keep up: write again when the socket is writable.
  kFailed = 2,   ///< The connection is gone.
};

enum class LinkVerdict : uint8_t { kOpen = 0, kEnded = 1, kFailed = 2, kBroken = 3 };

/// What opens a connection, both ways: who speaks, whether frames are sealed, and a nonce for that.
struct Preface {
  char magic[8] = {'S', 'U', 'M', 'P', 'S', '0', '0', '2'};
  uint8_t sealed = 0;
  uint8_t zeros[7] = {};
  std::byte nonce[32] = {};
};
static_assert(sizeof(Preface) == 48);

class Link {
 public:
  /// @param key   of the job; null: frames are not sealed.
  /// @param side  kClient: we opened the connection.
  /// @param dares  whether arrays may be lent here, should both ends turn out to be able to.
  Link(net::TcpConnection connection, const auth::Key* key, auth::Side side, bool dares);

  int fd() const { return connection_.fd(); }
  net::TcpConnection& connection() { return connection_; }  ///< For the preface.
  const std::string& address() const { return address_; }

  /// What to send first.
  const Preface& preface() const { return mine_; }
  /// Takes the other's. Errors: kDenied (not ours, or one end has a key and the other none).
  Result<void> on_preface(const Preface& other);
  bool is_open() const { return opened_.load(std::memory_order_acquire); }

  // Sending; any thread.
  /// Appends a frame. Returns the bytes queued. Nothing may be sent before on_preface.
  size_t send(FrameHeader header, const std::vector<::ps::SArray<char>>& arrays,
              const std::vector<::ps::DataType>& types, std::string_view body);
  /// At most about so many bytes (fewer where they are sealed): kPending if there are more.
  WriteVerdict write(size_t budget = SIZE_MAX);
  bool has_queued() const;
  /// Frames that are not wholly in the kernel's hands.
  size_t queued_frames() const;
  bool is_idle() const;  ///< Nothing is queued and nothing unacknowledged.
  /// When write() was last called with something to write.
  Instant last_write() const { return Instant{last_write_ns_.load(std::memory_order_relaxed)}; }
  std::atomic<bool> dirty{false};  ///< Somebody asked the leader to write.

  /// From now on data frames of a higher priority overtake (send_queue.h); before the first frame.
  /// Without effect where frames are sent again.
  void enable_priority() { by_priority_ = true; }

  // Sending again; see resend.h. Off until enabled, before the first frame.
  void enable_resend(const core::RttEstimator::Config& config);
  void on_ack(uint64_t next, Instant now);
  /// Queues what is due; the next time something will be.
  Instant repeat(Instant now);
  void send_ack(uint64_t next);
  uint64_t repeats() const;

  // Loans; see loan.h.
  const uint64_t dare;             ///< What the other is to answer in its memory; 0: nothing.
  std::atomic<uint64_t> shown{0};  ///< Our answer to its dare, for it to read.
  /// The answer to a dare on this connection: ours, or the one that we expect.
  uint64_t answer_to(uint64_t dared, bool ours) const;
  std::atomic<bool> may_lend{false};  ///< It can read ours.
  pid_t reads = 0;                    ///< The process that we can read, or 0. The leader's.
  void on_return(uint64_t loan);
  void send_return(uint64_t loan);

  // Receiving; the leader.
  /// @param room  null, or what holds the values (the second array), which the bytes then lack.
  using OnFrame = std::function<bool(const FrameHeader&, FrameBytes, const RoomPtr& room)>;
  /// Reads at most about `budget` bytes. `on_frame` returns false to break the connection.
  LinkVerdict read(size_t budget, const OnFrame& on_frame);
  /// Whether the values of a large frame that begins so, `bytes` of them, have a room. Null: none
  /// has. Where frames are sealed it is not asked.
  using FindRoom = std::function<RoomPtr(const FrameHeader&, size_t bytes)>;
  FindRoom find_room;
  /// Something has come that read() has not been told of: less of a large frame than it waits for.
  /// From now on it is told of every byte.
  bool has_unread();
  std::string ended_text() const { return ended_text_; }
  ReceiveTable<std::pair<FrameHeader, FrameBytes>>& received() { return received_; }

  // The hub's notes; under its lock, but `node` once it is set.
  std::atomic<int> node{-1};
  uint64_t epoch = 0;
  std::atomic<int64_t> heard_ns{0};
  std::atomic<bool> left{false};  ///< It has said goodbye.
  std::string host;               ///< The scheduler's: under which name it has registered.
  int port = 0;
  uint64_t token = 0;  ///< The poller's.
  std::mutex interest_mutex;
  bool wants_writable = false;  ///< Under interest_mutex.
  bool ack_due = false;         ///< The leader's.

 private:
  void enqueue(const OutFrame& frame);
  size_t append(const OutFrame& frame);
  void wait_in_line(int priority, OutFrame frame, size_t bytes);
  void send_short(FrameKind kind, uint64_t sequence);
  void lend(FrameHeader& header, std::vector<::ps::SArray<char>>& arrays, uint32_t lent);
  size_t prepare(std::vector<iovec>& parts);
  size_t advance(size_t bytes);
  bool has_written_all() const;
  void set_low_water(size_t bytes);
  LinkVerdict take_frames(const OnFrame& on_frame);
  LinkVerdict take(const FrameHeader& header, FrameBytes frame, const RoomPtr& room,
                   const OnFrame& on_frame);
  void follow_large();
  bool is_sealed_right(const FrameHeader& header, const FrameBytes& frame);
  bool begin_large(const FrameHeader& header, size_t whole);
  LinkVerdict ended(LinkVerdict verdict, std::string text);

  net::TcpConnection connection_;
  std::string address_;
  const auth::Key* key_;
  auth::Side side_;
  Preface mine_;
  std::atomic<bool> opened_{false};

  mutable std::mutex send_mutex_;
  std::deque<Piece> queue_;          ///< Appended to by all.
  std::deque<Piece> writing_;        ///< The writer's.
  size_t written_ = 0;               ///< Bytes of writing_.front() that are gone.
  std::optional<SealedOut> sealed_;  ///< The writer's, where frames are sealed: what leaves next.
  size_t queued_bytes_ = 0, queued_frames_ = 0;  ///< Not wholly in the kernel's hands; with seals.
  SendQueue<OutFrame> waiting_;  ///< Before queue_, where priorities count. Not sealed yet.
  bool by_priority_ = false;
  bool busy_ = false, failed_ = false;
  std::optional<SendTable<OutFrame>> table_;
  uint64_t data_sequence_ = 0;
  std::unordered_map<uint64_t, ::ps::SArray<char>> loans_;  ///< Kept until they return.
  uint64_t next_loan_ = 1;
  std::atomic<int64_t> last_write_ns_{0};

  std::optional<auth::ControlSeal> receive_seal_;
  std::optional<auth::FrameTag> large_tag_;  ///< Of the large frame, as far as it has come.
  size_t tagged_ = 0;                        ///< So many bytes of it.
  std::vector<char> buffer_;  ///< [begin_, end_) are bytes of frames that are not whole.
  size_t begin_ = 0, end_ = 0;
  LargeFrame large_;
  size_t low_water_ = 1;  ///< The kernel tells of so many bytes at once.
  std::string ended_text_;
  ReceiveTable<std::pair<FrameHeader, FrameBytes>> received_;
};

}  // namespace sumcast::ps

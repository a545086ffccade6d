// One stream of messages: what waits to be written, and how far the message that comes has got.
//
// It cuts bytes into headers and payloads and puts payloads where its host says; it does not know
// what headers mean. Never blocks. For one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "base/ids.h"
#include "mesh/match_board.h"
#include "mesh/message.h"
#include "mesh/stream.h"

namespace sumcast::mesh {

class Channel;

/// Whom a channel asks while it reads.
class ChannelHost {
 public:
  virtual ~ChannelHost() = default;
  /// A header has come. Returns false if it makes no sense, which ends the channel. For a payload
  /// that follows the host calls expect().
  virtual bool on_header(Channel& channel, const MessageHeader& header) = 0;
  /// The payload that was expected is where it belongs.
  virtual void on_payload(Channel& channel) = 0;
};

class Channel {
 public:
  /// @param is_outgoing  this rank opened it: messages leave, kReady and kCredit come back.
  Channel(GroupId of, Rank to, bool is_outgoing, std::shared_ptr<Stream> stream)
      : group(of), peer(to), outgoing(is_outgoing), stream_(std::move(stream)) {}

  const GroupId group;
  const Rank peer;
  const bool outgoing;

  int fd() const { return stream_->fd(); }
  const std::string& peer_name() const { return stream_->peer(); }
  /// Ends it, for good: nothing is read or written any more, payload targets are forgotten.
  void shut();
  bool is_shut() const { return shut_; }
  /// Nothing more leaves, and what comes is thrown away until the peer has closed its side: so
  /// that the kernel delivers what it has taken. Closing at once would not do: TCP answers bytes
  /// that nobody reads with a reset, and drops what was still to be sent.
  void linger();
  /// Nothing more leaves: the peer does not listen. What it has sent can still be read.
  void drop_output();

  /// Queues a header and a copy of `payload`; of no effect without takes_output().
  void queue(const MessageHeader& header, std::span<const std::byte> payload = {});
  /// Queues a header and a payload that stays where it is; `owner` is told when it has left.
  void queue_body(const MessageHeader& header, const std::byte* data,
                  std::shared_ptr<Exchange> owner);
  bool has_queued() const { return !queue_.empty(); }
  bool takes_output() const { return takes_output_ && !shut_; }
  /// Owners of bodies that have not left.
  void append_owners(std::vector<std::shared_ptr<Exchange>>& owners) const;

  /// Writes as far as the kernel takes it, and appends the owners of bodies that have left.
  /// @return 0, or an errno.
  int flush(std::vector<std::shared_ptr<Exchange>>& left);
  /// Reads what has come, at most about 256 KiB. @param staging  working memory, 64 KiB or so.
  /// @return 0, kPeerClosed, EBADMSG (the host made no sense of it), or an errno.
  int receive(ChannelHost& host, std::span<std::byte> staging);

  /// From on_header(): the payload that follows. May be empty.
  void expect(std::byte* target, uint64_t bytes) {
    target_ = target;
    target_left_ = bytes;
    expecting_ = true;
  }
  /// In the middle of a message, either way?
  bool is_between() const { return !expecting_ && header_got_ == 0; }

  // The host's notes.
  ReceivePtr receive_under_way;  ///< What the expected payload belongs to,
  ArrivalPtr arrival_under_way;  ///< or this.
  bool credit_due = false;       ///< The expected payload is eager.
  uint64_t waiting_bytes = 0;    ///< Eager payload that has come and was not taken yet.
  uint64_t credit_bytes = 0;     ///< Taken, and not yet acknowledged.
  bool watched = false, watched_for_write = false;

 private:
  struct Out {
    std::vector<std::byte> bytes;
    const std::byte* body = nullptr;
    uint64_t body_bytes = 0;
    std::shared_ptr<Exchange> owner;
    uint64_t sent = 0;
  };
  bool consume(ChannelHost& host, std::span<const std::byte> bytes);
  bool finish_payload(ChannelHost& host);

  std::shared_ptr<Stream> stream_;  // Shared with the mesh, which ends it with its group.
  bool shut_ = false;
  bool takes_output_ = true;
  bool lingering_ = false;
  std::deque<Out> queue_;
  MessageHeader header_;
  size_t header_got_ = 0;
  std::byte* target_ = nullptr;
  uint64_t target_left_ = 0;
  bool expecting_ = false;
};

}  // namespace sumcast::mesh

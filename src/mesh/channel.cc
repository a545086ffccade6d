#include "mesh/channel.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "mesh/handshake.h"

namespace sumcast::mesh {
namespace {

constexpr size_t kPartsMax = 8;
// What is offered to the kernel, or taken from it, before others get their turn.
constexpr size_t kTurnBytes = 256 << 10;
// From here on a payload is read straight into its place.
constexpr uint64_t kDirectBytes = 16 << 10;

}  // namespace

void Channel::shut() {
  shut_ = true;
  stream_->shut();
  queue_.clear();
  receive_under_way.reset();
  arrival_under_way.reset();
  target_ = nullptr;
}

void Channel::linger() {
  if (shut_) return;
  drop_output();
  lingering_ = true;
  stream_->end_output();
}

void Channel::drop_output() {
  takes_output_ = false;
  queue_.clear();
}

void Channel::queue(const MessageHeader& header, std::span<const std::byte> payload) {
  if (!takes_output()) return;
  Out out;
  out.bytes.resize(sizeof header + payload.size());
  std::memcpy(out.bytes.data(), &header, sizeof header);
  if (!payload.empty()) {
    std::memcpy(out.bytes.data() + sizeof header, payload.data(), payload.size());
  }
  queue_.push_back(std::move(out));
}

void Channel::queue_body(const MessageHeader& header, const std::byte* data,
                         std::shared_ptr<Exchange> owner) {
  if (!takes_output()) return;
  queue(header);
  queue_.back().body = data;
  queue_.back().body_bytes = header.bytes;
  queue_.back().owner = std::move(owner);
}

void Channel::append_owners(std::vector<std::shared_ptr<Exchange>>& owners) const {
  for (const Out& out : queue_) {
    if (out.owner) owners.push_back(out.owner);
  }
}

int Channel::flush(std::vector<std::shared_ptr<Exchange>>& left) {
  while (!queue_.empty() && !shut_) {
    std::array<iovec, kPartsMax> parts;
    size_t count = 0;
    size_t offered = 0;
    for (const Out& out : queue_) {
      if (count + 2 > kPartsMax || offered >= kTurnBytes) break;
      const uint64_t head = out.bytes.size();
      if (out.sent < head) {
        parts[count++] = {const_cast<std::byte*>(out.bytes.data()) + out.sent, head - out.sent};
        offered += head - out.sent;
      }
      const uint64_t from = out.sent > head ? out.sent - head : 0;
      const uint64_t length = std::min<uint64_t>(out.body_bytes - from, kTurnBytes);
      if (length > 0) parts[count++] = {const_cast<std::byte*>(out.body) + from, length};
      offered += length;
      if (from + length < out.body_bytes) break;
    }
    const Moved moved = stream_->send(std::span(parts).first(count));
    if (moved.error_number != 0) return moved.error_number;
    uint64_t sent = moved.bytes;
    while (!queue_.empty()) {
      Out& out = queue_.front();
      const uint64_t whole = out.bytes.size() + out.body_bytes;
      const uint64_t step = std::min(sent, whole - out.sent);
      out.sent += step;
      sent -= step;
      if (out.sent < whole) break;
      if (out.owner) left.push_back(std::move(out.owner));
      queue_.pop_front();
    }
    if (moved.bytes < offered) return 0;
  }
  return 0;
}

int Channel::receive(ChannelHost& host, std::span<std::byte> staging) {
  for (size_t turn = 0; turn < kTurnBytes && !shut_;) {
    const bool direct = expecting_ && target_left_ >= kDirectBytes && !lingering_;
    iovec part = direct ? iovec{target_, std::min<uint64_t>(target_left_, kTurnBytes)}
                        : iovec{staging.data(), staging.size()};
    const Moved moved = stream_->receive(std::span(&part, 1), false);
    if (moved.error_number != 0) return moved.error_number;
    if (moved.bytes == 0) return 0;
    turn += moved.bytes;
    if (lingering_) continue;
    if (direct) {
      target_ += moved.bytes;
      target_left_ -= moved.bytes;
      if (!finish_payload(host)) return EBADMSG;
    } else if (!consume(host, staging.first(moved.bytes))) {
      return shut_ ? 0 : EBADMSG;
    }
  }
  return 0;
}

/// Cuts what lies in the staging memory into headers and payloads.
bool Channel::consume(ChannelHost& host, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (expecting_) {
      const size_t step = std::min<uint64_t>(bytes.size(), target_left_);
      std::memcpy(target_, bytes.data(), step);
      target_ += step;
      target_left_ -= step;
      bytes = bytes.subspan(step);
      if (!finish_payload(host)) return false;
      continue;
    }
    const size_t step = std::min(bytes.size(), sizeof header_ - header_got_);
    std::memcpy(writable_bytes_of(header_).data() + header_got_, bytes.data(), step);
    header_got_ += step;
    bytes = bytes.subspan(step);
    if (header_got_ < sizeof header_) return true;
    header_got_ = 0;
    if (!host.on_header(*this, header_) || shut_) return false;
    if (expecting_ && !finish_payload(host)) return false;  // An empty one.
  }
  return true;
}

/// Tells the host once nothing is left of the payload. False if it then ended the channel.
bool Channel::finish_payload(ChannelHost& host) {
  if (target_left_ > 0) return true;
  expecting_ = false;
  host.on_payload(*this);
  return !shut_;
}

}  // namespace sumcast::mesh

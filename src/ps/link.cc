// Opening and receiving; sending is in link_send.cc and link_write.cc.
#include "ps/link.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <system_error>
#include <utility>

#include "auth/derive.h"
#include "ps/block_pool.h"

namespace sumcast::ps {
namespace {

constexpr size_t kFirstBuffer = 16 << 10;
constexpr size_t kLargestBuffer = 256 << 10;
/// From here on a frame is received where it stays; below, copying is cheaper than a call of its
/// own.
constexpr size_t kInPlace = 64 << 10;
/// Of a large frame so much is taken at once: waking up for each segment costs as much as copying
/// it.
constexpr size_t kLowWater = 256 << 10;
/// At most so much is received by one call: kernels buffer tens of megabytes, and to take and check
/// those on a busy processor keeps the leader from saying that it lives.
constexpr size_t kReceivedMax = 2 << 20;
/// What a peer may announce before it has said who it is.
constexpr uint64_t kStrangerBytesMax = 64 << 10;

}  // namespace

Link::Link(net::TcpConnection connection, const auth::Key* key, auth::Side side, bool dares)
    : dare(dares ? std::max<uint64_t>(1, auth::random_u64()) : 0),
      connection_(std::move(connection)),
      address_(connection_.remote().text()),
      key_(key),
      side_(side) {
  mine_.sealed = key != nullptr ? 1 : 0;
  const auth::ControlNonce nonce = auth::random_nonce();
  std::copy(nonce.begin(), nonce.end(), mine_.nonce);
}

Result<void> Link::on_preface(const Preface& other) {
  if (std::memcmp(other.magic, mine_.magic, sizeof mine_.magic) != 0) {
    return fail(ErrorCode::kDenied,
                fmt::format("{} speaks another protocol; all processes of a job need the same "
                            "version of Sumcast, and ps-lite's own do not mix with it",
                            address_));
  }
  if (other.sealed != mine_.sealed) {
    return fail(ErrorCode::kDenied,
                fmt::format("{} {} a key and this process {}; set SUMCAST_KEY_FILE for all or none",
                            address_, other.sealed != 0 ? "has" : "has not",
                            mine_.sealed != 0 ? "has one" : "has none"));
  }
  if (key_ != nullptr) {
    auth::ControlNonce client, server;
    const bool is_client = side_ == auth::Side::kClient;
    std::copy_n(is_client ? mine_.nonce : other.nonce, client.size(), client.begin());
    std::copy_n(is_client ? other.nonce : mine_.nonce, server.size(), server.begin());
    const auth::ControlSeal seal(*key_, client, server, side_);
    sealed_.emplace(seal);
    receive_seal_.emplace(seal);
  }
  opened_.store(true, std::memory_order_release);
  return {};
}

uint64_t Link::answer_to(uint64_t dared, bool ours) const {
  const bool is_client = side_ == auth::Side::kClient;
  const std::string near = connection_.local().text(), far = connection_.remote().text();
  const std::string info = (is_client ? near + "|" + far : far + "|" + near) +
                           (is_client == ours ? "|client" : "|server");
  uint64_t answer = 0;
  auth::hkdf_sha256(std::as_bytes(std::span(&dared, 1)), {}, std::as_bytes(std::span(info)),
                    std::as_writable_bytes(std::span(&answer, 1)));
  return answer;
}

LinkVerdict Link::ended(LinkVerdict verdict, std::string text) {
  if (ended_text_.empty()) ended_text_ = std::move(text);
  return verdict;
}

LinkVerdict Link::read(size_t budget, const OnFrame& on_frame) {
  if (buffer_.empty()) buffer_.resize(kFirstBuffer);
  while (budget > 0) {
    const bool is_large = large_.has_begun();
    const size_t space = buffer_.size() - end_;
    const auto receive = [this](char* to, size_t bytes) {
      return ::recv(fd(), to, std::min(bytes, kReceivedMax), MSG_DONTWAIT);
    };
    const ssize_t got = is_large ? large_.fill(receive) : receive(buffer_.data() + end_, space);
    if (got == 0) return ended(LinkVerdict::kEnded, address_ + " closed the connection");
    if (got < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return LinkVerdict::kOpen;
      return ended(LinkVerdict::kFailed, fmt::format("the connection to {} broke: {}", address_,
                                                     std::system_category().message(errno)));
    }
    const auto bytes = static_cast<size_t>(got);
    budget -= std::min(budget, bytes);
    if (is_large) {
      follow_large();
      if (large_.missing() > 0) {
        set_low_water(std::min(kLowWater, large_.missing()));
        continue;
      }
      set_low_water(1);
      const LargeFrame whole = std::exchange(large_, LargeFrame());
      const auto header = read_header(whole.block().get());
      if (const auto verdict = take(*header, whole.block(), whole.room(), on_frame);
          verdict != LinkVerdict::kOpen) {
        return verdict;
      }
      continue;
    }
    end_ += bytes;
    const bool filled = end_ == buffer_.size();
    if (const auto verdict = take_frames(on_frame); verdict != LinkVerdict::kOpen) return verdict;
    const bool all_taken = bytes < space && !filled;
    if (!large_.has_begun() && all_taken) return LinkVerdict::kOpen;
    if (filled && buffer_.size() < kLargestBuffer) buffer_.resize(2 * buffer_.size());
  }
  return LinkVerdict::kOpen;
}

void Link::set_low_water(size_t bytes) {
  if (bytes == low_water_) return;
  low_water_ = bytes;
  net::set_option(fd(), SOL_SOCKET, SO_RCVLOWAT, static_cast<int>(bytes));
}

bool Link::has_unread() {
  int unread = 0;
  if (::ioctl(fd(), FIONREAD, &unread) != 0 || unread == 0) return false;
  set_low_water(1);
  return true;
}

/// Takes all whole frames out of the buffer; a large one that has begun continues in its own place.
LinkVerdict Link::take_frames(const OnFrame& on_frame) {
  const size_t seal = receive_seal_ ? auth::kSealBytes : 0;
  while (end_ - begin_ >= kHeaderBytes) {
    const auto header = read_header(buffer_.data() + begin_);
    if (!header) return ended(LinkVerdict::kBroken, address_ + ": " + header.error().what);
    if (node.load(std::memory_order_relaxed) < 0 && header->payload_bytes > kStrangerBytesMax) {
      return ended(LinkVerdict::kBroken, address_ + " sent data before it said who it is");
    }
    const size_t whole = kHeaderBytes + static_cast<size_t>(header->payload_bytes) + seal;
    const size_t here = end_ - begin_;
    if (here >= whole) {
      FrameBytes frame = make_block(whole);
      std::memcpy(frame.get(), buffer_.data() + begin_, whole);
      begin_ += whole;
      if (const auto verdict = take(*header, std::move(frame), nullptr, on_frame);
          verdict != LinkVerdict::kOpen) {
        return verdict;
      }
    } else if (whole >= kInPlace) {
      try {
        if (!begin_large(*header, whole)) break;
      } catch (const std::bad_alloc&) {
        return ended(LinkVerdict::kBroken,
                     fmt::format("no memory for a message of {} bytes from {}", whole, address_));
      }
      break;
    } else {
      break;
    }
  }
  if (begin_ == end_) {
    begin_ = end_ = 0;
  } else if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  return LinkVerdict::kOpen;
}

/// What of a large frame is in the buffer goes to where the rest will. False if it cannot be told
/// yet where that is.
bool Link::begin_large(const FrameHeader& header, size_t whole) {
  const char* const begin = buffer_.data() + begin_;
  const size_t here = end_ - begin_;
  RoomPtr room;
  size_t before = kHeaderBytes + 8 * size_t{header.arrays} + padded(header.body_bytes);
  if (find_room && !receive_seal_ && header.arrays >= 2) {
    if (here < kHeaderBytes + 2 * 8) return false;
    const auto first = array_bytes(begin, 0), second = array_bytes(begin, 1);
    // A size that is padded would leave what follows unaligned.
    if (first && second && *second % 8 == 0 && before + padded(*first) + *second <= whole) {
      room = find_room(header, *second);
      before += padded(*first);
    }
  }
  if (room != nullptr) {
    large_ = LargeFrame(make_block(whole - room->size()), whole, before, room);
  } else {
    large_ = LargeFrame(make_block(whole), whole);
  }
  large_.take(begin, here);
  begin_ = end_;
  follow_large();
  return true;
}

/// The seal of a large frame is reckoned as far as its bytes have come.
void Link::follow_large() {
  if (!receive_seal_) return;
  if (!large_tag_) {
    large_tag_.emplace(receive_seal_->begin_open());
    tagged_ = 0;
  }
  const size_t come = std::min(large_.got(), large_.whole() - auth::kSealBytes);
  const auto* const block = reinterpret_cast<const std::byte*>(large_.block().get());
  large_tag_->add({block + tagged_, come - tagged_});
  tagged_ = come;
}

/// Whether the seal behind a whole frame is the peer's.
bool Link::is_sealed_right(const FrameHeader& header, const FrameBytes& frame) {
  const size_t bytes = kHeaderBytes + static_cast<size_t>(header.payload_bytes);
  const auto* const begin = reinterpret_cast<const std::byte*>(frame.get());
  const std::span<const std::byte, auth::kSealBytes> seal(begin + bytes, auth::kSealBytes);
  if (!large_tag_) return receive_seal_->open({begin, bytes}, seal);
  auth::FrameTag tag = std::move(*large_tag_);
  large_tag_.reset();
  return receive_seal_->open(std::move(tag), seal);
}

LinkVerdict Link::take(const FrameHeader& header, FrameBytes frame, const RoomPtr& room,
                       const OnFrame& on_frame) {
  if (receive_seal_ && !is_sealed_right(header, frame)) {
    return ended(LinkVerdict::kBroken,
                 address_ + " has another key (SUMCAST_KEY_FILE), or its frames were changed");
  }
  if (!on_frame(header, std::move(frame), room)) {
    return ended(LinkVerdict::kBroken, address_ + " broke the protocol");
  }
  return LinkVerdict::kOpen;
}

}  // namespace sumcast::ps

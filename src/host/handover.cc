#include "host/handover.h"

#include <errno.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "auth/derive.h"
#include "runtime/clock.h"

namespace sumcast::host {
namespace {

using net::FileDescriptor;
using Token = std::array<std::byte, 32>;

constexpr Duration kLook = std::chrono::milliseconds(20);  // Between looks at `give_up`.
constexpr Duration kReadPatience = std::chrono::seconds(2);
constexpr uint32_t kHelloMagic = 0x53436831, kAnswerMagic = 0x53436132;

struct Hello {
  uint32_t magic = kHelloMagic;
  uint32_t member = 0;
  Shape shape;
  Token token{};
};
struct Answer {
  uint32_t magic = kAnswerMagic;
  uint32_t code = 0;  // 0: the descriptor is attached; else an ErrorCode, and `text` says why.
  Token token{};
  std::array<char, 256> text{};
};

enum class Use : uint8_t { kName = 0, kHello = 1, kAnswer = 2 };

/// Derived from the job's key for this meeting, this use and this member.
Token derive(const Meeting& meeting, Use use, uint32_t member) {
  std::string info = "sumcast 1 host segment";
  info.push_back('\0');
  info += fmt::format("{:08x} {:08x} {:04x} {} {:08x}", meeting.incarnation.value, meeting.subject,
                      meeting.leader.value, static_cast<int>(use), member);
  const auth::Key nothing;
  Token token;
  auth::hkdf_sha256(meeting.key ? meeting.key->bytes : nothing.bytes, {},
                    std::as_bytes(std::span(info)), token);
  return token;
}

struct Name {
  sockaddr_un address{};
  socklen_t size = 0;
};

/// "\0sumcast-" and 32 hex digits: the abstract namespace.
Name name_of(const Meeting& meeting) {
  const Token token = derive(meeting, Use::kName, 0);
  std::string text = "sumcast-";
  for (size_t i = 0; i < 16; ++i) text += fmt::format("{:02x}", static_cast<uint8_t>(token[i]));
  Name name;
  name.address.sun_family = AF_UNIX;
  std::memcpy(name.address.sun_path + 1, text.data(), text.size());
  name.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return name;
}

bool same_token(const Token& a, const Token& b) {
  std::byte difference{0};  // All bytes are looked at, whatever the first ones are.
  for (size_t i = 0; i < a.size(); ++i) difference |= a[i] ^ b[i];
  return difference == std::byte{0};
}

/// The peer runs under our user id.
Result<void> check_user(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return fail(net::system_error("the neighbour's credentials", errno));
  }
  if (peer.uid == ::geteuid()) return {};
  return fail(ErrorCode::kDenied, fmt::format("a neighbour runs as user {}, this rank as user {}",
                                              peer.uid, ::geteuid()));
}

bool send_answer(int to, const Answer& answer, int attached) {
  iovec part{const_cast<Answer*>(&answer), sizeof answer};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (attached >= 0) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &attached, sizeof attached);
  }
  return ::sendmsg(to, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof answer);
}

/// What came of an answer: how many bytes; 0: the line was closed.
size_t receive_answer(int from, Answer& answer, FileDescriptor& attached) {
  iovec part{&answer, sizeof answer};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t got = ::recvmsg(from, &message, MSG_CMSG_CLOEXEC);
  for (cmsghdr* h = got < 0 ? nullptr : CMSG_FIRSTHDR(&message); h != nullptr;
       h = CMSG_NXTHDR(&message, h)) {
    if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS) continue;
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(h), sizeof fd);
    attached = FileDescriptor(fd);
  }
  return got < 0 ? 0 : static_cast<size_t>(got);
}

FileDescriptor open_socket() {
  return FileDescriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

/// The leader's side of one visit: the member that was served, or nothing.
std::optional<uint32_t> serve(const Meeting& meeting, const FileDescriptor& visitor,
                              const Result<Segment>& segment) {
  if (!check_user(visitor.get())) return std::nullopt;
  if (!net::wait_ready(visitor.get(), POLLIN, runtime::monotonic_now() + kReadPatience)) {
    return std::nullopt;
  }
  Hello hello;
  if (::recv(visitor.get(), &hello, sizeof hello, 0) != static_cast<ssize_t>(sizeof hello) ||
      hello.magic != kHelloMagic || hello.member == 0 || hello.member >= meeting.shape.ranks ||
      !same_token(hello.token, derive(meeting, Use::kHello, hello.member))) {
    return std::nullopt;
  }
  Answer answer;
  answer.token = derive(meeting, Use::kAnswer, hello.member);
  const auto refuse = [&](const Error& error) {
    answer.code = static_cast<uint32_t>(error.code);
    std::memcpy(answer.text.data(), error.what.data(),
                std::min(error.what.size(), answer.text.size() - 1));
  };
  if (!segment) {
    refuse(segment.error());
  } else if (hello.shape != meeting.shape) {
    refuse({ErrorCode::kMismatch, "the ranks of this host lay shared memory out differently"});
  }
  if (!send_answer(visitor.get(), answer, answer.code == 0 ? segment->fd() : -1)) {
    return std::nullopt;
  }
  return hello.member;
}

Result<Segment> lead(const Meeting& meeting, Instant deadline, const GiveUp& give_up) {
  const FileDescriptor door = open_socket();
  const Name name = name_of(meeting);
  if (!door.is_open() ||
      ::bind(door.get(), reinterpret_cast<const sockaddr*>(&name.address), name.size) != 0 ||
      ::listen(door.get(), static_cast<int>(meeting.shape.ranks)) != 0) {
    return fail(net::system_error("listening for the ranks of this host", errno));
  }
  Result<Segment> segment = Segment::create(meeting.shape);
  std::vector<bool> served(meeting.shape.ranks, false);
  uint32_t missing = meeting.shape.ranks - 1;
  while (missing > 0) {
    const Instant now = runtime::monotonic_now();
    std::optional<Error> failure = give_up();
    if (!failure && now >= deadline) {
      failure = {ErrorCode::kTimeout,
                 fmt::format("{} of {} ranks of this host did not come for the shared memory",
                             missing, meeting.shape.ranks - 1)};
    }
    if (failure) {
      if (segment) segment->abort(*failure);  // Those who have it already must not wait for more.
      return fail(*failure);
    }
    if (!net::wait_ready(door.get(), POLLIN, std::min(deadline, now + kLook))) continue;
    const FileDescriptor visitor(::accept4(door.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!visitor.is_open()) {
      std::this_thread::sleep_for(kLook);  // Descriptors ran out: the door stays readable.
      continue;
    }
    const auto member = serve(meeting, visitor, segment);
    if (!member || served[*member]) continue;
    served[*member] = true;
    --missing;
  }
  if (segment) segment->seal_off();
  return segment;
}

Result<Segment> follow(const Meeting& meeting, Instant deadline, const GiveUp& give_up) {
  const Name name = name_of(meeting);
  FileDescriptor line;
  for (Duration nap = std::chrono::microseconds(200);;) {
    line = open_socket();
    if (!line.is_open()) return fail(net::system_error("a socket to the leading rank", errno));
    if (::connect(line.get(), reinterpret_cast<const sockaddr*>(&name.address), name.size) == 0) {
      break;
    }
    // Refused: it does not listen yet. Again: its queue is full.
    if (errno != ECONNREFUSED && errno != EAGAIN && errno != EINTR) {
      return fail(net::system_error("reaching the leading rank of this host", errno));
    }
    if (const auto reason = give_up()) return fail(*reason);
    if (runtime::monotonic_now() >= deadline) {
      return fail(ErrorCode::kTimeout, fmt::format("rank {}, which leads the ranks of this host, "
                                                   "offered no shared memory",
                                                   meeting.leader.value));
    }
    std::this_thread::sleep_for(nap);
    nap = std::min<Duration>(2 * nap, kLook);
  }
  if (auto user = check_user(line.get()); !user) return fail(user.error());
  const Hello hello{kHelloMagic, meeting.me, meeting.shape,
                    derive(meeting, Use::kHello, meeting.me)};
  if (::send(line.get(), &hello, sizeof hello, MSG_NOSIGNAL) !=
      static_cast<ssize_t>(sizeof hello)) {
    return fail(net::system_error("asking the leading rank of this host", errno));
  }
  while (
      !net::wait_ready(line.get(), POLLIN, std::min(deadline, runtime::monotonic_now() + kLook))) {
    if (const auto reason = give_up()) return fail(*reason);
    if (runtime::monotonic_now() < deadline) continue;
    return fail(ErrorCode::kTimeout, fmt::format("rank {}, which leads the ranks of this host, "
                                                 "did not answer",
                                                 meeting.leader.value));
  }
  Answer answer;
  FileDescriptor memory;
  const size_t got = receive_answer(line.get(), answer, memory);
  if (got == 0) {
    // Why, the coordinator may know.
    return fail(give_up().value_or(
        Error{ErrorCode::kUnavailable,
              fmt::format("rank {}, which leads the ranks of this host, closed the line without an "
                          "answer: it died, or gave up",
                          meeting.leader.value)}));
  }
  if (got != sizeof answer || answer.magic != kAnswerMagic ||
      !same_token(answer.token, derive(meeting, Use::kAnswer, meeting.me))) {
    return fail(ErrorCode::kDenied,
                "the ranks of this host do not know each other: another key or another user");
  }
  if (answer.code != 0) {
    answer.text.back() = '\0';
    return fail(static_cast<ErrorCode>(answer.code), answer.text.data());
  }
  auto segment = Segment::attach(std::move(memory), meeting.shape);
  if (segment) segment->seal_off();
  return segment;
}

}  // namespace

Result<Segment> meet(const Meeting& meeting, Instant deadline, const GiveUp& give_up) {
  if (meeting.shape.ranks == 1) return Segment::create(meeting.shape);
  return meeting.me == 0 ? lead(meeting, deadline, give_up) : follow(meeting, deadline, give_up);
}

}  // namespace sumcast::host

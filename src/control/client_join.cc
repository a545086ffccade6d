// Joining, step by step with one deadline. Each way to fail has a text that says what to change.
#include "control/client_join.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "auth/derive.h"
#include "control/wording.h"
#include "net/descriptor.h"
#include "runtime/clock.h"
#include "runtime/log.h"

namespace sumcast::control {

namespace {

/// The coordinator refuses at the deadline itself and names who is missing: we wait a bit longer.
constexpr Duration kAnswerTime = 1s;
constexpr Duration kRetryFirst = 20ms;
constexpr Duration kRetryMax = 500ms;

/// The coordinator says what a join waits for (job_notices.cc). So much later a rank that has
/// heard nothing says that.
constexpr Duration kNoticeLate = 1s;
/// A connection may take so long to be made before it is begun anew for a notice's sake.
constexpr Duration kConnectMin = 1s;

/// Says in the log that joining takes long, and why; now and then only.
class JoinNotices {
 public:
  JoinNotices(const JoinOptions& options, Instant begun)
      : options_(options), begun_(begun), next_(begun + options.notice) {}

  /// When consider() should be called next.
  Instant next() const { return next_; }
  void consider(std::string_view why) {
    const Instant now = runtime::monotonic_now();
    if (now < next_) return;
    const Instant deadline = begun_ + options_.join.timeout;
    runtime::log_warn(runtime::Subsystem::kInit,
                      "rank {} has tried for {} to join job \"{}\": {}; it gives up in {}",
                      options_.join.rank.value, span_text(now - begun_), options_.join.job, why,
                      span_text(deadline - now));
    next_ = now + (now - begun_);
  }
  /// The coordinator said what this rank waits for, and will again after twice the time.
  void pass_on(const std::string& text) {
    runtime::log_warn(runtime::Subsystem::kInit, "{}", text);
    const Instant now = runtime::monotonic_now();
    next_ = now + (now - begun_) + kNoticeLate;
  }

 private:
  const JoinOptions& options_;
  Instant begun_, next_;
};

/// One attempt on one connection.
class Attempt {
 public:
  Attempt(const JoinOptions& options, net::TcpConnection tcp, Instant deadline,
          JoinNotices& notices)
      : options_(options),
        where_(options.coordinator.text()),
        tcp_(std::move(tcp)),
        deadline_(deadline),
        notices_(notices) {}

  Result<JoinedConnection> run() {
    const auto hello = next_frame(deadline_);
    if (!hello) return fail(hello.error());
    if (auto greeted = on_hello(*hello); !greeted) return fail(std::move(greeted.error()));
    notice_due_ = runtime::monotonic_now() + options_.notice + kNoticeLate;
    silence_ = "took the join but has said nothing since";
    for (;;) {
      const auto answer = next_frame(deadline_ + kAnswerTime);
      if (!answer) return fail(answer.error());
      auto message = open_answer(*answer);
      const auto* waiting = message ? std::get_if<Waiting>(&*message) : nullptr;
      if (waiting != nullptr) {
        notices_.pass_on(waiting->text);
        if (runtime::monotonic_now() < deadline_ + kAnswerTime) continue;
        return fail(ErrorCode::kTimeout, fmt::format("{} only said who is missing", where_));
      }
      is_decided_ = true;
      if (!message) return fail(std::move(message.error()));
      auto welcome = welcome_of(std::move(*message));
      if (!welcome) return fail(std::move(welcome.error()));
      return JoinedConnection{std::move(tcp_), std::move(seal_), std::move(*welcome)};
    }
  }

  /// The coordinator has decided. A connection that ended before that may be tried again: it was
  /// lost, or gave way to others in a crowd.
  bool is_decided() const { return is_decided_; }

 private:
  Result<std::vector<std::byte>> next_frame(Instant deadline) {
    std::vector<std::byte> frame;
    for (;;) {
      const net::ReadVerdict verdict = tcp_.read_frames([&](std::span<const std::byte> bytes) {
        frame.assign(bytes.begin(), bytes.end());
        return false;
      });
      if (verdict == net::ReadVerdict::kStopped) return frame;
      if (verdict == net::ReadVerdict::kTooLong) return fail(foreign());
      if (verdict != net::ReadVerdict::kOpen) {
        return fail(ErrorCode::kUnavailable, "while joining: " + tcp_.failure_text());
      }
      const Instant notice_at = std::max(notices_.next(), notice_due_);
      if (net::wait_ready(tcp_.fd(), POLLIN, std::min(deadline, notice_at))) continue;
      const std::string silence = fmt::format("{} {}", where_, silence_);
      if (runtime::monotonic_now() >= deadline) return fail(ErrorCode::kTimeout, silence);
      notices_.consider(silence);
    }
  }

  Result<void> on_hello(const std::vector<std::byte>& frame) {
    const auto hello = decode_server_hello(*FrameSeal().unwrap(frame));
    if (!hello) return fail(foreign());
    if (hello->protocol != kProtocol) return fail(other_version(hello->protocol));
    const auto nonce = nonce_from_text(hello->nonce);
    if (!nonce) return fail(foreign());
    const auth::ControlNonce own = auth::random_nonce();
    const std::string answer =
        encode(ClientHello{kProtocol, nonce_text(own), options_.key.has_value()});
    tcp_.queue_frame(FrameSeal().wrap(answer));
    if (hello->sealed != options_.key.has_value()) {
      tcp_.flush();  // So that the other side can count it.
      return fail(one_sided(hello->sealed));
    }
    if (options_.key) {
      seal_ = FrameSeal(auth::ControlSeal(*options_.key, own, *nonce, auth::Side::kClient));
    }
    Join join = options_.join;
    join.timeout = std::max(milliseconds(1),
                            std::chrono::floor<milliseconds>(deadline_ - runtime::monotonic_now()));
    tcp_.queue_frame(seal_.wrap(encode(join)));
    while (tcp_.flush() == net::FlushVerdict::kPending) {
      if (!net::wait_ready(tcp_.fd(), POLLOUT, deadline_)) break;
    }
    return {};
  }

  Result<ServerMessage> open_answer(const std::vector<std::byte>& frame) {
    const auto body = seal_.unwrap(frame);
    if (!body) {
      return fail(
          ErrorCode::kDenied,
          fmt::format("the key{} is not the one that {} uses",
                      options_.key_source.empty() ? "" : " in " + options_.key_source, where_));
    }
    auto message = decode_server_message(*body);
    if (!message) return fail(message.error().within(where_));
    return message;
  }

  Result<Welcome> welcome_of(ServerMessage message) const {
    if (auto* refused = std::get_if<Refused>(&message)) return fail(refused->code, refused->text);
    auto* welcome = std::get_if<Welcome>(&message);
    if (welcome == nullptr || welcome->members.size() != options_.join.world) {
      return fail(ErrorCode::kInternal, where_ + " answers a join with something else");
    }
    return std::move(*welcome);
  }

  Error foreign() const {
    return {ErrorCode::kDenied,
            fmt::format("what listens at {} is no Sumcast coordinator; check the address", where_)};
  }
  Error other_version(uint32_t theirs) const {
    const bool old_daemon = theirs < kProtocol;
    return {ErrorCode::kDenied,
            fmt::format("{} speaks control protocol {}, this program {}: {}; use the same release "
                        "on both",
                        where_, theirs, kProtocol,
                        old_daemon ? "an old daemon" : "this program is older than the daemon")};
  }
  Error one_sided(bool theirs_is_sealed) const {
    return {ErrorCode::kDenied,
            theirs_is_sealed
                ? fmt::format("{} requires a key and this rank has none; set SUMCAST_KEY_FILE to "
                              "the file that the daemon uses",
                              where_)
                : fmt::format("{} runs with --insecure but this rank has a key{}; give the daemon "
                              "the key too, or run this rank with --insecure",
                              where_,
                              options_.key_source.empty() ? "" : " (" + options_.key_source + ")")};
  }

  const JoinOptions& options_;
  std::string where_;
  net::TcpConnection tcp_;
  Instant deadline_;
  JoinNotices& notices_;
  FrameSeal seal_;
  std::string_view silence_ = "accepts connections but does not answer as a coordinator";
  Instant notice_due_{};  ///< Before that, silence is the coordinator's good right.
  bool is_decided_ = false;
};

}  // namespace

Result<JoinedConnection> join_coordinator(const JoinOptions& options) {
  const Instant begun = runtime::monotonic_now();
  const Instant deadline = begun + options.join.timeout;
  JoinNotices notices(options, begun);
  Duration pause = kRetryFirst;
  for (;;) {
    Error error;
    const Instant patience = std::max(notices.next(), runtime::monotonic_now() + kConnectMin);
    auto tcp = net::connect_tcp(options.coordinator, options.bind_local,
                                std::min(deadline, patience), member_tcp_options());
    if (tcp) {
      Attempt attempt(options, std::move(*tcp), deadline, notices);
      auto joined = attempt.run();
      if (joined) return joined;
      if (joined.error().code != ErrorCode::kUnavailable || attempt.is_decided()) {
        return joined;
      }
      error = std::move(joined.error());
    } else {
      error = std::move(tcp.error());
      const bool is_silent = error.code == ErrorCode::kTimeout;
      if (is_silent) error.what = options.coordinator.text() + " does not answer";
      if (!is_silent && error.code != ErrorCode::kUnavailable) return fail(std::move(error));
    }
    // Ranks start in any order, and the one that hosts the coordinator may be the last.
    const Instant now = runtime::monotonic_now();
    if (now >= deadline) {
      error.what = fmt::format("cannot join job \"{}\": {} (tried for {:.1f} s)", options.join.job,
                               error.what, std::chrono::duration<double>(now - begun).count());
      return fail(std::move(error));
    }
    notices.consider(error.what);
    std::this_thread::sleep_for(std::min(pause, deadline - now));
    pause = std::min(2 * pause, kRetryMax);
  }
}

}  // namespace sumcast::control

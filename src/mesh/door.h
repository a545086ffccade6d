// The thread that lets peers in: accepts connections, runs the host's half of the handshake.
//
// Strangers get little: at most kKnocksMax connections that have not proved themselves, each for
// kKnockPatience at most, and a fixed few hundred bytes of memory for each. When all places are
// taken the oldest goes, since an honest peer is done within a few round trips; if one is turned
// away all the same, it tries again (Mesh::connect).
//
// Nothing is accepted before start(): connections wait in the kernel's queue until the rank knows
// which job it is in. The door does not know what streams are for.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "auth/secret.h"
#include "base/result.h"
#include "base/time.h"
#include "mesh/handshake.h"
#include "net/poll.h"
#include "net/tcp.h"

namespace sumcast::mesh {

inline constexpr size_t kKnocksMax = 64;
inline constexpr Duration kKnockPatience = 5s;

/// Whom the door speaks for, known once the job was joined.
struct HostIdentity {
  Incarnation incarnation;
  Rank me;
};

class Door {
 public:
  /// Whether a stream with these names would be taken now. Called on the door's thread.
  using Wants = std::function<bool(const Hello&)>;
  /// Takes a stream over. Called on the door's thread.
  using Admit = std::function<void(const Hello&, net::TcpConnection)>;

  /// Starts the thread; it admits nobody before start(). Errors: kSystem.
  static Result<std::unique_ptr<Door>> open(net::TcpListener listener, std::optional<auth::Key> key,
                                            Wants wants, Admit admit);
  /// Waits for the thread; callbacks are over when it returns.
  ~Door();

  const net::Endpoint& endpoint() const { return listener_.local(); }
  /// Called once, from any thread.
  void start(const HostIdentity& identity);

 private:
  /// A connection that has not proved itself yet.
  struct Knock {
    uint64_t token;
    net::TcpConnection connection;
    Instant deadline;
    Hello hello{};
    std::optional<auth::ControlSeal> seal;  ///< Set once the hello was answered.
    std::array<std::byte, sizeof(Hello)> bytes{};
    size_t got = 0;
  };
  using Knocks = std::list<Knock>;
  enum class Step : uint8_t { kWait, kGone, kAdmitted };

  Door(net::TcpListener listener, std::optional<auth::Key> key, net::Poller poller,
       net::WakeUp wake, Wants wants, Admit admit);

  void run();
  void take_orders();
  void accept_all(Instant now);
  void on_readable(uint64_t token);
  void expire(Instant now);
  Duration patience(Instant now) const;
  void drop(Knocks::iterator knock);
  Step advance(Knock& knock);
  Step on_hello(Knock& knock);
  Answer judge(const Hello& hello) const;

  net::TcpListener listener_;
  const std::optional<auth::Key> key_;
  net::Poller poller_;
  net::WakeUp wake_;
  const Wants wants_;
  const Admit admit_;

  std::mutex mutex_;
  std::optional<HostIdentity> order_;  ///< Guarded by mutex_, as is stopping_.
  bool stopping_ = false;

  // The thread's own.
  std::optional<HostIdentity> identity_;
  bool stopped_ = false;
  Knocks knocks_;  ///< Oldest first.
  uint64_t next_token_ = 2;
  Instant accept_again_{};  ///< Set while descriptors are short and the listener is not polled.

  std::thread thread_;
};

}  // namespace sumcast::mesh

#include "cli/wire_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

#include "net/poll.h"
#include "net/udp.h"
#include "numeric/codec.h"
#include "runtime/clock.h"
#include "wire/header.h"

namespace sumcast::cli {
namespace {

constexpr Duration kPatience = 1s;  // Without progress: something was lost.
constexpr uint32_t kIpUdpBytes = 28;
constexpr uint64_t kStandardInput = UINT64_MAX;
constexpr uint16_t kGroup = 0x5C;  // Any number: the ports differ.

uint32_t payload_bytes_of(const WorkerOptions& options) {
  const auto overhead = static_cast<uint32_t>(kIpUdpBytes + wire::kHeaderBytes +
                                              (options.library.insecure ? 0 : wire::kTagBytes));
  return options.library.mtu - overhead;
}

Result<net::UdpSocket> open_socket(const net::Endpoint& local, const WorkerOptions& options,
                                   bool shared = false) {
  net::UdpOptions udp;
  udp.local = local;
  udp.reuse_address = shared;
  udp.receive_buffer_bytes = options.library.socket_buffer_bytes;
  udp.send_buffer_bytes = options.library.socket_buffer_bytes;
  return net::UdpSocket::open(udp);
}

/// Where the echo sends to, all workers at once.
net::Endpoint group_of(const WorkerOptions& options) {
  return net::Endpoint::site_group(kGroup,
                                   static_cast<uint16_t>(options.port + options.library.world));
}

/// Releases what has arrived and says how many datagrams it was.
uint64_t count_arrivals(net::UdpSocket& socket, net::ReceiveBuffers& buffers,
                        std::span<net::ReceivedBatch> batches, net::Endpoint* from = nullptr) {
  uint64_t datagrams = 0;
  const size_t arrived = socket.receive(buffers, batches);
  for (size_t i = 0; i < arrived; ++i) {
    datagrams += net::segments(batches[i]).size();
    if (from != nullptr) *from = batches[i].from;
    buffers.release(batches[i].buffer);
  }
  return datagrams;
}

class WireRole final : public WorkerRole {
 public:
  WireRole(const WorkerOptions& options, net::UdpSocket socket, net::UdpSocket listening,
           net::Poller poller)
      : options_(options),
        socket_(std::move(socket)),
        listening_(std::move(listening)),
        poller_(std::move(poller)) {
    window_ = options.library.window != 0 ? options.library.window : kWireWindow;
  }

  uint32_t payload_bytes() const override { return payload_bytes_of(options_); }
  uint64_t retransmits() const override { return 0; }
  void fill(bool) override {}
  uint64_t count_wrong() const override { return 0; }

  Result<void> set_case(const BenchCase& bench) override {
    traffic_ = wire_traffic(bench, payload_bytes(), !options_.library.insecure);
    operations_ = bench.operations;
    // As in the real thing, what is sent lies in a tensor that no cache holds.
    tensor_.assign(traffic_.datagrams * traffic_.datagram_bytes, std::byte{1});
    return {};
  }

  Result<void> run() override {
    for (uint32_t i = 0; i < operations_; ++i) {
      if (Result<void> done = run_one(); !done) return done;
    }
    return {};
  }

 private:
  Result<void> run_one() {
    uint64_t sent = 0, received = 0;
    while (received < traffic_.datagrams) {
      const uint64_t before = sent + received;
      const bool blocked = send_window(sent, received);
      received += count_arrivals(listening_, buffers_, batches_);
      if (sent + received != before) continue;
      if (blocked != watching_writes_) {
        watching_writes_ = blocked;
        if (Result<void> done = watch_writes(blocked); !done) return done;
      }
      if (poller_.wait(events_, kPatience) == 0) {
        return fail(ErrorCode::kTimeout,
                    fmt::format("wire: {} of {} datagrams came back; some were lost, try a smaller "
                                "--window",
                                received, traffic_.datagrams));
      }
    }
    return {};
  }

  /// Nothing is ever read from this socket, so it is watched only while it is full.
  Result<void> watch_writes(bool wanted) {
    return wanted ? poller_.add(socket_.fd(), 1, net::Interest::kWrite)
                  : poller_.remove(socket_.fd());
  }

  /// Sends whole batches as far as the window allows. True if the socket's buffer is full.
  bool send_window(uint64_t& sent, uint64_t received) {
    const uint32_t batch_max = net::segments_max(traffic_.datagram_bytes);
    while (sent < traffic_.datagrams) {
      const uint64_t batch = std::min<uint64_t>(traffic_.datagrams - sent, batch_max);
      const bool idle = sent == received;  // A window below one batch still moves.
      if (sent + batch > received + window_ && !idle) return false;
      const iovec part{tensor_.data() + sent * traffic_.datagram_bytes,
                       batch * traffic_.datagram_bytes};
      net::SendRun run;
      run.parts = {&part, 1};
      run.datagram_bytes = run.last_bytes = traffic_.datagram_bytes;
      run.datagrams = static_cast<uint32_t>(batch);
      const net::SendOutcome outcome = socket_.send(run);
      sent += outcome.datagrams;
      if (!outcome.complete()) return outcome.would_block;
    }
    return false;
  }

  WorkerOptions options_;
  net::UdpSocket socket_, listening_;
  net::Poller poller_;
  net::ReceiveBuffers buffers_{16};
  std::array<net::ReceivedBatch, 16> batches_;
  std::array<net::Event, 4> events_;
  std::vector<std::byte> tensor_;
  WireTraffic traffic_;
  uint32_t operations_ = 1;
  uint32_t window_;
  bool watching_writes_ = false;
};

class Echo {
 public:
  static Result<Echo> create(const WorkerOptions& options) {
    Result<net::Poller> poller = net::Poller::create();
    if (!poller) return fail(poller.error());
    if (Result<void> done = poller->add(0, kStandardInput); !done) return fail(done.error());
    const net::Endpoint group = group_of(options);
    const auto own = net::parse_endpoint(fmt::format("{}:{}", options.peer, group.port()));
    if (!own) return fail(own.error());
    Result<net::UdpSocket> out = open_socket(*own, options);
    if (!out) return fail(out.error());
    if (Result<void> done = out->send_to_groups(true); !done) return fail(done.error());
    if (Result<void> done = out->connect(group); !done) return fail(done.error());
    Echo echo(options, std::move(*poller), std::move(*out));
    for (uint32_t rank = 0; rank < options.library.world; ++rank) {
      const auto at = own->with_port(static_cast<uint16_t>(options.port + rank));
      Result<net::UdpSocket> socket = open_socket(at, options);
      if (!socket) return fail(socket.error());
      if (Result<void> done = echo.poller_.add(socket->fd(), rank); !done) {
        return fail(done.error());
      }
      echo.sockets_.push_back(std::move(*socket));
    }
    return echo;
  }

  Result<void> serve() {
    std::array<net::Event, 64> events;
    while (true) {
      const size_t ready = poller_.wait(events, blocked_ ? Duration(1ms) : Duration::max());
      for (size_t i = 0; i < ready; ++i) {
        if (events[i].token == kStandardInput) return {};  // The driver is done, or gone.
        if (Result<void> done = receive(static_cast<size_t>(events[i].token)); !done) return done;
      }
      fan_out();
    }
  }

 private:
  Echo(const WorkerOptions& options, net::Poller poller, net::UdpSocket out)
      : poller_(std::move(poller)),
        out_(std::move(out)),
        received_(options.library.world),
        buffer_(net::kBatchBytesMax) {}

  Result<void> receive(size_t rank) {
    net::UdpSocket& socket = sockets_[rank];
    net::Endpoint from;
    std::array<net::ReceivedBatch, 4> batches;
    const size_t arrived = socket.receive(*buffers_, batches);
    for (size_t i = 0; i < arrived; ++i) {
      received_[rank] += net::segments(batches[i]).size();
      datagram_bytes_ = batches[i].segment_bytes;
      from = batches[i].from;
      buffers_->release(batches[i].buffer);
    }
    if (arrived == 0 || socket.is_connected()) return {};
    return socket.connect(from);
  }

  /// Sends all workers as many datagrams as each of them has sent.
  void fan_out() {
    const uint64_t complete = *std::min_element(received_.begin(), received_.end());
    blocked_ = false;
    while (sent_ < complete && !blocked_) {
      const uint32_t batch = static_cast<uint32_t>(
          std::min<uint64_t>(complete - sent_, net::segments_max(datagram_bytes_)));
      const iovec part{buffer_.data(), size_t{batch} * datagram_bytes_};
      net::SendRun run;
      run.parts = {&part, 1};
      run.datagram_bytes = run.last_bytes = datagram_bytes_;
      run.datagrams = batch;
      const net::SendOutcome outcome = out_.send(run);
      sent_ += outcome.datagrams;
      blocked_ = !outcome.complete();
    }
  }

  net::Poller poller_;
  std::vector<net::UdpSocket> sockets_;
  std::unique_ptr<net::ReceiveBuffers> buffers_ = std::make_unique<net::ReceiveBuffers>(16);
  net::UdpSocket out_;
  std::vector<uint64_t> received_;  ///< Datagrams since the start, by rank.
  uint64_t sent_ = 0;
  std::vector<std::byte> buffer_;
  uint32_t datagram_bytes_ = 0;
  bool blocked_ = false;
};

}  // namespace

WireTraffic wire_traffic(const BenchCase& bench, uint32_t payload_bytes_max, bool tagged) {
  const uint64_t elements = bench.bytes / element_bytes(bench.type);
  const uint64_t lanes_max =
      numeric::lanes_per_chunk(bench.type, WireFormat::kNative, payload_bytes_max);
  const uint64_t lanes = std::min(elements, lanes_max);
  const size_t payload = numeric::payload_bytes(bench.type, WireFormat::kNative, lanes);
  const size_t overhead = wire::kHeaderBytes + (tagged ? wire::kTagBytes : 0);
  return {(elements + lanes_max - 1) / lanes_max, static_cast<uint32_t>(payload + overhead)};
}

Result<std::unique_ptr<WorkerRole>> make_wire_role(const WorkerOptions& options) {
  const auto echo =
      net::parse_endpoint(fmt::format("{}:{}", options.peer, options.port + options.library.rank));
  if (!echo) return fail(echo.error());
  Result<net::UdpSocket> socket = open_socket(net::Endpoint::any(net::Family::kIpv4, 0), options);
  if (!socket) return fail(socket.error());
  if (Result<void> done = socket->connect(*echo); !done) return fail(done.error());
  Result<net::Poller> poller = net::Poller::create();
  if (!poller) return fail(poller.error());
  Result<net::UdpSocket> listening = open_socket(group_of(options), options, true);
  if (!listening) return fail(listening.error());
  if (Result<void> done = listening->join_group(socket->local()); !done) return fail(done.error());
  if (Result<void> done = poller->add(listening->fd(), 0); !done) return fail(done.error());
  return std::make_unique<WireRole>(options, std::move(*socket), std::move(*listening),
                                    std::move(*poller));
}

int run_wire_echo(const WorkerOptions& options) {
  Result<Echo> echo = Echo::create(options);
  if (!echo) {
    fmt::print("error {}\n", echo.error().what);
    return 1;
  }
  fmt::print("hello 0\n");
  std::fflush(stdout);
  const Result<void> served = echo->serve();
  if (!served) fmt::print(stderr, "wire: {}\n", served.error().what);
  return served ? 0 : 1;
}

}  // namespace sumcast::cli

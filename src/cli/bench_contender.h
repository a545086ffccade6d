// One column of the comparison while it is measured: an algorithm of ours, or a peer.
//
// The driver gives contenders their turns alternately, so that what the machine does meanwhile
// (another load, a change of clock rate) meets them all. A contender keeps its processes asleep, or
// stopped, while it is not its turn.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "cli/bench_bounds.h"
#include "cli/bench_plan.h"
#include "cli/bench_site.h"
#include "lab/cpu_clock.h"

namespace sumcast::cli {

enum class Half : uint8_t { kOutOfPlace = 0, kInPlace = 1 };

/// What one contender's turns at one case add up to.
struct Tally {
  std::array<std::vector<double>, 2> times_us;  ///< By half; per operation, joined over ranks.
  std::array<uint64_t, 2> wrong{};              ///< By half.
  bool checked = false;
  std::optional<uint64_t> retransmits;
  uint64_t operations = 0;         ///< That `busy` and `tx_bytes` cover.
  Duration busy{0};                ///< Of all processors.
  std::vector<uint64_t> tx_bytes;  ///< By worker; empty without links.
};

/// Reads the links' and processors' counters around what is measured.
class Meter {
 public:
  explicit Meter(lab::Cluster& cluster) : cluster_(cluster) {}
  /// Waits until links are empty, then reads.
  Result<void> start();
  /// Adds what happened since `start` to `tally`.
  Result<void> stop(uint64_t operations, Tally& tally);

 private:
  lab::Cluster& cluster_;
  std::vector<lab::LinkCounters> before_;
  lab::CpuClock clock_;
};

class Contender {
 public:
  explicit Contender(ContenderSpec spec) : spec_(std::move(spec)) {}
  virtual ~Contender() = default;

  const ContenderSpec& spec() const { return spec_; }
  /// Peers have one way to work, which is in place for all-reduce.
  virtual bool has_half(const BenchCase& bench, Half half) const = 0;
  /// What its datagrams carry, for the bound.
  virtual DatagramShape shape() const { return {}; }
  /// How the peer's rows came about, for a line of comment; empty if there is nothing to say.
  virtual std::string note(const BenchCase&) const { return {}; }

  /// Starts its processes; all cases will come in the plan's order.
  virtual Result<void> start() = 0;
  virtual Result<void> begin(size_t case_index) = 0;
  /// One timed block in the half.
  virtual Result<void> turn(Half half, Meter& meter, Tally& tally) = 0;
  /// After the case's last turn.
  virtual Result<void> end(Tally& tally) = 0;

 private:
  ContenderSpec spec_;
};

std::unique_ptr<Contender> make_ranked_contender(const ContenderSpec& spec, BenchSite& site);
std::unique_ptr<Contender> make_peer_contender(const ContenderSpec& spec, BenchSite& site);

}  // namespace sumcast::cli

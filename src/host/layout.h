// Where the ranks of a group sit: on which host, and which of them leads it.
//
//   place   0 1 2 3 4 5      rank within the group
//   host    0 1 0 1 2 0      hosts are numbered by their lowest place
//   seat    0 0 1 1 0 2      place among the ranks of its host, in rank order
//
// The layout is the coordinator's (control/plan.h) and equal on all ranks, because the order of
// additions follows from it: the ranks of a host in order of seat, then the hosts in their order
// (docs/numerics.md, N1). Pure arithmetic.
#pragma once

#include <cstdint>
#include <vector>

namespace sumcast::host {

class Layout {
 public:
  /// @param host_of  the host of each place: hosts numbered from 0 in order of their lowest place.
  /// @param me       this rank's place.
  Layout(std::vector<uint32_t> host_of, uint32_t me);

  uint32_t size() const { return static_cast<uint32_t>(host_of_.size()); }
  uint32_t hosts() const { return static_cast<uint32_t>(leaders_.size()); }
  uint32_t me() const { return me_; }
  uint32_t host_of(uint32_t place) const { return host_of_[place]; }
  uint32_t seat_of(uint32_t place) const { return seat_of_[place]; }
  uint32_t my_host() const { return host_of_[me_]; }
  uint32_t my_seat() const { return seat_of_[me_]; }
  bool leads() const { return my_seat() == 0; }
  /// Places of the ranks of this rank's host, by seat.
  const std::vector<uint32_t>& neighbours() const { return neighbours_; }
  /// The lowest place of each host.
  const std::vector<uint32_t>& leaders() const { return leaders_; }
  /// Ranks of the host that has most.
  uint32_t seats_max() const { return seats_max_; }
  /// Does any host have more than one rank?
  bool shares() const { return seats_max_ > 1; }

 private:
  std::vector<uint32_t> host_of_, seat_of_, neighbours_, leaders_;
  uint32_t me_;
  uint32_t seats_max_ = 0;
};

}  // namespace sumcast::host

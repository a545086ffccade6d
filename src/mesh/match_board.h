// Which message belongs to which receive: the rules of MPI. Pure.
//
// Messages of one sender are matched in the order they were sent, receives in the order they were
// posted; a tag matches itself only, and a receive from any sender takes the first that fits.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "mesh/exchange.h"

namespace sumcast::mesh {

/// A posted receive. Shared by the board, or once it is matched by what fills it.
struct Receive {
  std::shared_ptr<Exchange> owner;
  Receiving what;
};
using ReceivePtr = std::shared_ptr<Receive>;

/// A message that came before its receive: announced (`id` set), or eager with its payload here.
struct Arrival {
  Rank from;
  uint64_t tag = 0;
  uint64_t bytes = 0;
  uint32_t check = 0;
  uint64_t id = 0;
  std::vector<std::byte> payload;
  bool complete = false;  ///< All of an eager payload has come.
  ReceivePtr taker;       ///< Matched while the payload was still coming.
};
using ArrivalPtr = std::shared_ptr<Arrival>;

/// Of one group. Not thread-safe.
class MatchBoard {
 public:
  /// A message's header has come: its receive, taken off the board; nullptr if there is none yet.
  ReceivePtr take_receive(Rank from, uint64_t tag);
  /// A receive is to be posted: the arrival that it matches, taken off; nullptr if there is none.
  ArrivalPtr take_arrival(const Receiving& what);

  void post(ReceivePtr receive) { receives_.push_back(std::move(receive)); }
  void keep(ArrivalPtr arrival) { arrivals_.push_back(std::move(arrival)); }

  /// Takes all receives of `owner` off the board.
  void withdraw(const Exchange& owner);
  /// Owners of receives that only `from` could satisfy.
  std::vector<std::shared_ptr<Exchange>> waiting_for(Rank from) const;
  template <typename Visit>
  void each_receive(Visit visit) const {
    for (const ReceivePtr& receive : receives_) visit(receive);
  }
  void clear();

 private:
  std::list<ReceivePtr> receives_;
  std::list<ArrivalPtr> arrivals_;
};

}  // namespace sumcast::mesh

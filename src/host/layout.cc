#include "host/layout.h"

#include <algorithm>

#include "base/assert.h"

namespace sumcast::host {

Layout::Layout(std::vector<uint32_t> host_of, uint32_t me)
    : host_of_(std::move(host_of)), seat_of_(host_of_.size()), me_(me) {
  SUMCAST_ASSERT(me < host_of_.size());
  std::vector<uint32_t> seats;
  for (uint32_t place = 0; place < host_of_.size(); ++place) {
    const uint32_t host = host_of_[place];
    SUMCAST_ASSERT(host <= seats.size());  // Numbered by lowest place.
    if (host == seats.size()) {
      seats.push_back(0);
      leaders_.push_back(place);
    }
    seat_of_[place] = seats[host]++;
    if (host == host_of_[me]) neighbours_.push_back(place);
    seats_max_ = std::max(seats_max_, seats[host]);
  }
}

}  // namespace sumcast::host

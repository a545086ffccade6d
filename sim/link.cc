#include "sim/link.h"

#include <algorithm>
#include <utility>

namespace sumcast::sim {

Duration Link::time_on_wire(uint32_t bytes) const {
  if (config_.rate_bits_per_second == 0) return Duration{0};
  return Duration(
      static_cast<int64_t>(uint64_t{bytes} * 8 * 1'000'000'000u / config_.rate_bits_per_second));
}

bool Link::overflows(uint32_t bytes, Instant now) const {
  if (config_.rate_bits_per_second == 0 || idle_at_ <= now) return false;
  const double backlog_bits =
      std::chrono::duration<double>(idle_at_ - now).count() * double(config_.rate_bits_per_second);
  return backlog_bits / 8 + bytes > double(config_.queue_bytes_max);
}

void Link::send(std::span<const Datagram> batch, Instant now) {
  std::vector<Datagram> together;
  for (const Datagram& datagram : batch) {
    ++counters_.sent;
    if (overflows(datagram.bytes, now)) {
      ++counters_.overflowed;
      continue;
    }
    counters_.bytes += datagram.bytes;
    idle_at_ = std::max(idle_at_, now) + time_on_wire(datagram.bytes);
    const Instant at = idle_at_ + config_.delay;
    const Fate fate = faults_.next(now);
    if (fate.other_life) {
      ++counters_.other_life;
      Datagram stranger = datagram;
      stranger.header.incarnation ^= 1u;
      stranger.content = ~stranger.content;
      arrive_at(at, {std::move(stranger)});
    }
    if (fate.twice) {
      ++counters_.doubled;
      arrive_at(at + fate.twin_late, {datagram});
    }
    if (fate.lost) {
      ++counters_.lost;
    } else if (config_.keeps_batches && fate.late.count() == 0) {
      together.push_back(datagram);
    } else {
      arrive_at(at + fate.late, {datagram});
    }
  }
  if (!together.empty()) arrive_at(idle_at_ + config_.delay, std::move(together));
}

void Link::arrive_at(Instant at, std::vector<Datagram> datagrams) {
  uint64_t number = flights_.size();
  if (free_flights_.empty()) {
    flights_.emplace_back();
  } else {
    number = free_flights_.back();
    free_flights_.pop_back();
  }
  flights_[number] = std::move(datagrams);
  queue_.schedule(at, *this, number);
}

void Link::on_event(Instant now, uint64_t what) {
  const std::vector<Datagram> arrived = std::exchange(flights_[what], {});
  free_flights_.push_back(what);
  sink_.on_datagrams(arrived, now);
}

}  // namespace sumcast::sim

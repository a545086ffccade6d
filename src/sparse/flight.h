// A round of a worker that is on its way: everything it needs until nobody can want it any more.
// Inside the room only.
//
//   posted   plans, bodies and sums are out                       may be posted again (failover)
//   landed   all replies, acks and sums are in: the servers' part is done
//   applied  hot rows have moved by its sums, its dense sum was handed on
//   its turn its batch becomes the current one; kept on, for workers that are behind (P17)
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "sparse/frames.h"
#include "sparse/hot_rows.h"
#include "sumcast/sumcast.hpp"

namespace sumcast::sparse {

/// Keys of one segment of one server.
struct Part {
  std::vector<uint64_t> keys;
  std::vector<uint32_t> places;  ///< Among the batch's keys.
};
using Parts = std::vector<Part>;  ///< By server and segment.

/// Keys that were asked for, and their rows.
struct Batch {
  size_t keys = 0;
  Parts parts;
  std::vector<std::vector<float>> rows;         ///< By part: f32[keys][lanes].
  std::vector<std::vector<std::byte>> encoded;  ///< By part: as they came, if rows are rounded.
  std::vector<uint32_t> hot_slots, hot_places;
  std::vector<float> hot_rows;  ///< f32[hot_slots][width], as they are read; if has_copies.
  bool has_copies = false;      ///< Hot rows move on before the batch's turn, or are rounded.
  bool is_listed = false;       ///< The servers of this context know what it asked for.
};

struct Flight {
  Task task = Task::kStep;
  uint64_t step = 0;
  uint32_t flags = 0;   ///< Of PlanFlag, but kNamed.
  uint32_t marks = 0;   ///< Of the plans; as it was posted last.
  float rate = 0;       ///< Of the optimizer in its step.
  uint64_t number = 0;  ///< Among all flights of the job.
  uint32_t round = 0;   ///< In this context.
  bool has_pushed = false;
  Batch pushed, pulled;
  std::vector<std::vector<uint64_t>> bodies;  ///< By part: keys pushed, keys pulled, gradients.
  std::vector<Plan> plans;                    ///< By server, like the two below.
  std::vector<Ack> acks;
  SaveOrder order;
  std::vector<SaveReceipt> receipts;

  uint32_t slots = 0;  ///< Of the hot table; 0: nothing hot is summed.
  HotRows::Addends hot;
  HotRows::Sums hot_sums;
  std::vector<float> dense, dense_sum;

  struct UnderWay {
    Work work;
    uint32_t segment;
    size_t bytes;  ///< To the server that gets most.
  };
  std::deque<UnderWay> segments;
  size_t segment_bytes = 0;   ///< Under way.
  uint32_t next_segment = 0;  ///< To be posted.
  std::optional<Work> telling, ordering, summing_hot, summing_dense;

  bool carries_flush = false;  ///< A flush goes before it, and has arrived when it lands.
  bool is_landed = false, is_applied = false;
  uint64_t operation = 0;  ///< Its number among the operations that are done; 0: not counted.

  /// Nothing of it is under way any more, for its groups are fenced.
  void ground() {
    segments.clear();
    segment_bytes = 0;
    next_segment = 0;
    telling.reset(), ordering.reset(), summing_hot.reset(), summing_dense.reset();
  }
};

}  // namespace sumcast::sparse

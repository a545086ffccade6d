// An aggregator of mergeable pushes: takes workers' parts, gives sums.
//
// A part is what of one worker's push to one server has keys of this shard. Parts for the same
// server, application, command and width gather until every worker that keeps pushing has given
// one, or for a bounded time; then they leave as one *harvest*: for each key the left fold of its
// rows in order of the workers' ranks, which in synchronous training is the canonical sum
// (docs/numerics.md). A part belongs to one harvest whole. While kInFlight harvests are not
// committed, parts go on gathering: a slow server is sent more at once, not more often.
//
// Pure. For one thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "base/time.h"
#include "ps/internal/message.h"
#include "ps/request_id.h"

namespace sumcast::ps {

/// A part's name: whose, and of which request.
struct PartName {
  int32_t worker = 0;
  RequestId id;
  friend auto operator<=>(const PartName&, const PartName&) = default;
};
static_assert(std::has_unique_object_representations_v<PartName>);

/// The shape of a message of keys and rows; nothing if it cannot be summed: keys of 64 bits, rows
/// of float or double, all equally wide, no lens.
struct RowShape {
  size_t keys = 0, width = 0;
  ::ps::DataType type = ::ps::FLOAT;
};
std::optional<RowShape> rows_of(const ::ps::Message& message);

struct Harvest {
  int number = 0;  ///< From 1.
  int server = 0;
  ::ps::Message message;  ///< A push: keys, sorted, and sums; app, command.
  std::vector<PartName> parts;
};

class MergeShard {
 public:
  /// @param workers  node ids of all that may send parts.
  void reset(const std::vector<int>& workers, Duration wait_max);

  /// @param message  a push with rows_of(); its timestamp and customer are the worker's.
  void on_part(int worker, int server, ::ps::Message message, Instant now);
  /// Takes the harvests that may leave now.
  std::vector<Harvest> due(Instant now);
  Instant next_due() const;
  struct Committed {
    int server = 0;
    std::vector<PartName> parts;
    size_t rows_in = 0, rows_out = 0;
  };
  /// The server has applied a harvest. Nothing if it is not known.
  std::optional<Committed> on_committed(int number);

  void on_worker_lost(int worker);
  void on_server_lost(int server);

  static constexpr int kInFlight = 2;

 private:
  /// Server, application, command, width, type.
  using Key = std::tuple<int, int, int, size_t, ::ps::DataType>;
  struct Part {
    PartName name;
    ::ps::Message message;
  };
  struct Group {
    std::vector<Part> parts;
    Instant deadline = Instant::never();
    int in_flight = 0;
    std::map<int, int> faith;  ///< By worker: how regularly it gives parts, 0 to kFaithMax.
  };
  struct Flight {
    Key group;
    Committed committed;  ///< What will be said of it.
  };

  /// Of those who have given less regularly than this none is waited for.
  static constexpr int kFaithMax = 8, kFaithful = 4;

  bool is_complete(const Group& group) const;
  Harvest close(const Key& key, Group& group);

  std::vector<int> workers_;
  Duration wait_max_{};
  std::map<Key, Group> groups_;
  std::map<int, Flight> flying_;
  int next_ = 1;
};

}  // namespace sumcast::ps

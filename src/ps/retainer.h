// A worker's requests that are not answered yet, to be sent again to a server that stands in.
//
// A message shares its arrays with the program, which leaves them as they are until the request is
// done, so keeping it costs no copy. Answers that come a second time are told apart.
//
// Pure. For one thread at a time.
#pragma once

#include <cstdint>
#include <list>
#include <unordered_map>
#include <vector>

#include "ps/internal/message.h"
#include "ps/request_id.h"

namespace sumcast::ps {

class Retainer {
 public:
  /// @param server  the node whose keys it asks for, whoever answers.
  void keep(int server, const ::ps::Message& message);
  /// False if no such request waits for an answer.
  bool on_answer(int server, const RequestId& id, uint64_t answer_bytes);
  /// In the order in which they were sent.
  std::vector<::ps::Message> unanswered(int server) const;
  /// Pushes that were answered since this was last asked, for the server that keeps their answers;
  /// empty until there are kStep of them, or kBytesStep bytes of answers.
  std::vector<RequestId> settled(int server);
  void clear() { servers_.clear(); }

  static constexpr size_t kStep = 16;
  static constexpr uint64_t kBytesStep = 1 << 20;

 private:
  struct OfServer {
    std::list<::ps::Message> in_order;
    std::unordered_map<RequestId, std::list<::ps::Message>::iterator, RequestIdHash> places;
    std::vector<RequestId> settled;
    uint64_t settled_bytes = 0;
  };

  std::unordered_map<int, OfServer> servers_;
};

}  // namespace sumcast::ps

// A worker's pushes that were cut: what of each is with which aggregator, and what went straight
// to its server. A push to a server is done when all its parts are committed there.
//
// Pure. For one thread at a time.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "ps/internal/message.h"
#include "ps/request_id.h"

namespace sumcast::ps {

class MergeLedger {
 public:
  /// @param meta     of the request; `recver` is its server.
  /// @param straight whether a part goes to the server itself.
  /// @param parts    by aggregator; kept to be sent again.
  void open(const ::ps::Meta& meta, bool straight, const std::map<int, ::ps::Message>& parts);

  /// What an answer or a commitment says of a push.
  enum class Verdict : uint8_t {
    kUnknown = 0,  ///< It was not cut: an ordinary one's.
    kPending = 1,  ///< Other parts of it are under way.
    kDone = 2,     ///< It was the last.
  };
  Verdict on_answer(int server, const RequestId& id);
  Verdict on_committed(int aggregator, int server, const RequestId& id);

  /// An aggregator has died: what it had is to be sent to the servers (meta.recver), and is then
  /// answered by them.
  std::vector<::ps::Message> take_parts(int aggregator);
  void on_server_lost(int server);
  void clear() { pushes_.clear(); }
  size_t size() const { return pushes_.size(); }

 private:
  struct Push {
    int straight = 0;  ///< Answers of the server still to come.
    std::map<int, ::ps::Message> parts;
  };
  using Name = std::pair<int, RequestId>;  ///< By server.

  Verdict settle(std::map<Name, Push>::iterator it);

  std::map<Name, Push> pushes_;
};

}  // namespace sumcast::ps

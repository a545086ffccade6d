// What a server knows of requests that concern another server's keys.
//
// Its handler gets them like its own; only their numbers are ours, below zero, since a worker gives
// the same number to its requests to several servers. A request comes by the log, from the server
// that handles it, or from its worker, when that server is dead; or both ways, and is then handled
// once. An answer to a logged request stays here until the worker asks for it, or says that it had
// it from the other server.
//
// Pure. For one thread at a time.
#pragma once

#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ps/internal/message.h"
#include "ps/request_id.h"

namespace sumcast::ps {

class AnswerBook {
 public:
  /// Whose keys, and who asks for them.
  struct Origin {
    int server = 0, worker = 0;
  };
  /// An answer to be sent to its worker.
  struct Answer {
    Origin origin;
    ::ps::Message message;  ///< With the worker's number.
  };

  /// A request came by the log. Its number for the handler; nothing if it is known already. A lost
  /// worker's is handled, too, for its server has: nobody will ask for the answer.
  std::optional<int> on_logged(Origin origin, const ::ps::Meta& meta);

  struct Asked {
    std::optional<int> handle_as;  ///< New: its number for the handler.
    std::optional<Answer> answer;  ///< Handled and answered before.
  };
  /// A worker asks, its server being dead. Nothing of both if the answer is still to come, or if
  /// that worker is lost: what is known of its requests is forgotten, and they would count twice.
  Asked on_asked(Origin origin, const ::ps::Meta& meta);

  /// Our number of a request that is not settled; and whose it is.
  std::optional<int> number_of(Origin origin, const RequestId& id) const;
  std::optional<std::pair<Origin, RequestId>> whose(int number) const;

  /// The handler has answered; what to send, if anything.
  std::optional<Answer> on_response(const ::ps::Message& response);
  /// The worker has had these answers. A sum is forgotten only when it has been handled here: until
  /// then others may wait to hear that it was.
  void on_settled(Origin origin, const std::vector<RequestId>& ids);
  void on_worker_lost(int worker);
  void clear();
  size_t size() const { return entries_.size(); }

 private:
  struct Name {
    int worker = 0, server = 0;
    RequestId id;
    friend bool operator==(const Name&, const Name&) = default;
  };
  struct NameHash {
    size_t operator()(const Name& name) const {
      return RequestIdHash()(name.id) ^ static_cast<size_t>(name.worker * 8191 + name.server);
    }
  };
  struct Entry {
    Name name;
    bool asked = false;
    bool settled = false;  // Not handled here yet, and its answer is not wanted.
    std::optional<::ps::Message> answer;
  };

  int open(const Name& name);
  Answer take(int number);

  std::unordered_map<int, Entry> entries_;  ///< By our number.
  std::unordered_map<Name, int, NameHash> numbers_;
  std::set<int> lost_;
  int next_ = -1;
};

}  // namespace sumcast::ps

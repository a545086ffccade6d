// The transport, as programs see it: who am I, send a message.
#ifndef PS_INTERNAL_VAN_H_
#define PS_INTERNAL_VAN_H_

#include <atomic>
#include <cstdint>

#include "ps/base.h"
#include "ps/internal/message.h"

namespace ps {

/// One per process; belongs to the Postoffice. Thread-safe.
class Van {
 public:
  Van(const Van&) = delete;
  Van& operator=(const Van&) = delete;

  /// Sends to the node `meta.recver`. The data is shared, not copied: leave it as it is until the
  /// response has come. Returns the bytes of data; 0 if the node is gone, in which case the request
  /// of this number fails (Customer::WaitRequest).
  int64_t Send(const Message& msg);

  /// This process; its id is set between Start and Finalize. Fails before Start.
  const Node& my_node() const;

  /// Numbers that are unique in this process.
  int GetTimestamp() { return timestamp_.fetch_add(1); }

  bool IsReady() const;

 private:
  friend class Postoffice;
  Van() {}

  std::atomic<int> timestamp_{0};
};

}  // namespace ps
#endif  // PS_INTERNAL_VAN_H_

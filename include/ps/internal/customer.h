// One party of an application in this process: it has requests under way and receives messages.
#ifndef PS_INTERNAL_CUSTOMER_H_
#define PS_INTERNAL_CUSTOMER_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ps/internal/message.h"

namespace ps {

/// Messages for a customer are handled one after another, in the order in which they came from
/// each sender; never two at once. They are handled by a thread of the library, or by a thread of
/// the program while it waits in WaitRequest of this customer.
class Customer {
 public:
  using RecvHandle = std::function<void(const Message& recved)>;

  /// Receives from now on. Messages that have come before are kept for it.
  Customer(int app_id, int customer_id, const RecvHandle& recv_handle);
  /// The older form: the customer is called like the application.
  Customer(int id, const RecvHandle& recv_handle) : Customer(id, id, recv_handle) {}
  /// Waits for a handler that is running.
  ~Customer();
  Customer(const Customer&) = delete;
  Customer& operator=(const Customer&) = delete;

  int app_id() const { return app_id_; }
  int customer_id() const { return customer_id_; }

  /// Opens a request to a node or group; it is done when each of its nodes has responded.
  /// Returns its number. Numbers begin at 0, or behind those of a former customer of this name, and
  /// count up; after 2^31 - 1 they begin at 0 again.
  int NewRequest(int recver);
  /// The same, to some nodes of a group: the death of the others does not concern it. Who calls it
  /// counts their responses (AddResponse). None: all are asked.
  int NewRequest(int recver, const std::vector<int>& asked);

  /// Returns when the request is done, its callback included. Fails (LOG(FATAL): dmlc::Error) if a
  /// node that it needs is gone, or after SUMCAST_PS_WAIT_TIMEOUT.
  void WaitRequest(int timestamp);

  /// Responses that have come so far.
  int NumResponse(int timestamp);

  /// Counts `num` responses that will not come.
  void AddResponse(int timestamp, int num = 1);

  /// The request cannot succeed: WaitRequest fails with this text. The first one stays.
  void FailRequest(int timestamp, const std::string& why);

  /// The values that this server answers to a pull may be received right here, if they fill it. The
  /// memory is the library's to write until the request is done or WaitRequest has failed.
  void OfferRoom(int timestamp, int server_rank, const SArray<char>& room);

  /// Hands a message in as if it had come from outside.
  void Accept(const Message& recved);

  /// Before and after a program's handler is given a request: a server with a replica has it repeat
  /// the request.
  static void BeginHandling(const Message& request);
  static void EndHandling(const Message& request);

  struct Core;  ///< src/ps/customer_core.h

 private:
  const int app_id_;
  const int customer_id_;
  std::shared_ptr<Core> core_;
  std::atomic<bool> used_{false};
};

}  // namespace ps
#endif  // PS_INTERNAL_CUSTOMER_H_

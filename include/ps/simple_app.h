// Requests and responses of a number and a text, between any nodes that are connected.
#ifndef PS_SIMPLE_APP_H_
#define PS_SIMPLE_APP_H_

#include <functional>
#include <string>

#include "ps/internal/customer.h"
#include "ps/internal/message.h"
#include "ps/internal/postoffice.h"

namespace ps {

/// A request or response that was received.
struct SimpleData {
  int head;
  std::string body;
  int sender;
  int timestamp;
  int customer_id;
};

/// Handlers run one at a time (see Customer). Set them before the first message can come.
class SimpleApp {
 public:
  using Handle = std::function<void(const SimpleData& recved, SimpleApp* app)>;

  SimpleApp(int app_id, int customer_id) : SimpleApp() {
    obj_ = new Customer(app_id, customer_id, [this](const Message& msg) { Process(msg); });
  }
  /// The older form.
  explicit SimpleApp(int app_id) : SimpleApp(app_id, app_id) {}
  virtual ~SimpleApp() {
    delete obj_;
    obj_ = nullptr;
  }
  SimpleApp(const SimpleApp&) = delete;
  SimpleApp& operator=(const SimpleApp&) = delete;

  /// Sends to a node or to each node of a group. Returns at once, with the request's number.
  virtual int Request(int req_head, const std::string& req_body, int recv_id) {
    Message msg;
    msg.meta.head = req_head;
    msg.meta.body = req_body;
    msg.meta.timestamp = obj_->NewRequest(recv_id);
    msg.meta.request = true;
    msg.meta.simple_app = true;
    msg.meta.app_id = obj_->app_id();
    msg.meta.customer_id = obj_->customer_id();
    for (int id : Postoffice::Get()->GetNodeIDs(recv_id)) {
      msg.meta.recver = id;
      Postoffice::Get()->van()->Send(msg);
    }
    return msg.meta.timestamp;
  }

  /// Returns when all have responded; fails as Customer::WaitRequest does.
  virtual void Wait(int timestamp) { obj_->WaitRequest(timestamp); }

  /// Once for each request; also later, from any thread.
  virtual void Response(const SimpleData& recv_req, const std::string& res_body = "") {
    Message msg;
    msg.meta.head = recv_req.head;
    msg.meta.body = res_body;
    msg.meta.timestamp = recv_req.timestamp;
    msg.meta.request = false;
    msg.meta.simple_app = true;
    msg.meta.app_id = obj_->app_id();
    msg.meta.customer_id = recv_req.customer_id;
    msg.meta.recver = recv_req.sender;
    Postoffice::Get()->van()->Send(msg);
  }

  virtual void set_request_handle(const Handle& request_handle) {
    CHECK(request_handle) << "a request handle must be callable";
    request_handle_ = request_handle;
  }
  virtual void set_response_handle(const Handle& response_handle) {
    CHECK(response_handle) << "a response handle must be callable";
    response_handle_ = response_handle;
  }

  virtual Customer* get_customer() { return obj_; }

 protected:
  SimpleApp()
      : obj_(nullptr),
        request_handle_([](const SimpleData& recved, SimpleApp* app) { app->Response(recved); }),
        response_handle_([](const SimpleData&, SimpleApp*) {}) {}

  virtual void Process(const Message& msg) {
    SimpleData data;
    data.head = msg.meta.head;
    data.body = msg.meta.body;
    data.sender = msg.meta.sender;
    data.timestamp = msg.meta.timestamp;
    data.customer_id = msg.meta.customer_id;
    (msg.meta.request ? request_handle_ : response_handle_)(data, this);
  }

  Customer* obj_;

 private:
  Handle request_handle_;
  Handle response_handle_;
};

}  // namespace ps
#endif  // PS_SIMPLE_APP_H_

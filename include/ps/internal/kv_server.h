// The server's side of key-value requests.
#ifndef PS_INTERNAL_KV_SERVER_H_
#define PS_INTERNAL_KV_SERVER_H_

#include <functional>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "ps/internal/kv_pairs.h"
#include "ps/simple_app.h"

namespace ps {

/// Of a request; what Response needs to answer it.
struct KVMeta {
  int cmd;
  bool push;
  bool pull;
  int sender;       ///< The worker's node id.
  int timestamp;    ///< The worker's number of the request; ours, below 0, for another server's.
  int customer_id;  ///< The worker's.
};

template <typename Val>
class KVServer : public SimpleApp {
 public:
  using SimpleApp::obj_;

  explicit KVServer(int app_id) : SimpleApp() {
    obj_ = new Customer(app_id, app_id, [this](const Message& msg) { Process(msg); });
  }
  ~KVServer() override {
    delete obj_;
    obj_ = nullptr;
  }

  /// Called for one request at a time. `req_data` shares the memory of the message: what keeps it
  /// keeps that alive.
  using ReqHandle =
      std::function<void(const KVMeta& req_meta, const KVPairs<Val>& req_data, KVServer* server)>;
  void set_request_handle(const ReqHandle& request_handle) {
    CHECK(request_handle) << "a request handle must be callable";
    std::vector<Message> early;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      request_handle_ = request_handle;
      early.swap(early_);
    }
    for (const Message& msg : early) obj_->Accept(msg);
  }

  /// Answers a request, once: from the handler, or later and from any thread. To a pull belong the
  /// keys that were asked for. `res` is shared, not copied: leave it as it is until it is sent.
  void Response(const KVMeta& req, const KVPairs<Val>& res = KVPairs<Val>()) {
    Message msg;
    msg.meta.app_id = obj_->app_id();
    msg.meta.customer_id = req.customer_id;
    msg.meta.request = false;
    msg.meta.push = req.push;
    msg.meta.pull = req.pull;
    msg.meta.head = req.cmd;
    msg.meta.timestamp = req.timestamp;
    msg.meta.recver = req.sender;
    if (!res.keys.empty()) {
      msg.AddData(res.keys);
      msg.AddData(res.vals);
      if (!res.lens.empty()) msg.AddData(res.lens);
    }
    Postoffice::Get()->van()->Send(msg);
  }

 protected:
  void Process(const Message& msg) override {
    if (msg.meta.simple_app) {
      SimpleApp::Process(msg);
      return;
    }
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!request_handle_) {  // Workers may be faster than this server's main.
        early_.push_back(msg);
        return;
      }
    }
    KVMeta meta;
    meta.cmd = msg.meta.head;
    meta.push = msg.meta.push;
    meta.pull = msg.meta.pull;
    meta.sender = msg.meta.sender;
    meta.timestamp = msg.meta.timestamp;
    meta.customer_id = msg.meta.customer_id;
    KVPairs<Val> pairs;
    if (!msg.data.empty()) {
      CHECK_GE(msg.data.size(), 2u);
      pairs.keys = msg.data[0];
      pairs.vals = msg.data[1];
      if (msg.data.size() > 2) {
        pairs.lens = msg.data[2];
        CHECK_EQ(pairs.lens.size(), pairs.keys.size());
      }
    }
    Customer::BeginHandling(msg);
    request_handle_(meta, pairs, this);
    Customer::EndHandling(msg);
  }

 private:
  std::mutex mutex_;  // Guards what follows; the handle is only read once it is set.
  ReqHandle request_handle_;
  std::vector<Message> early_;  ///< Requests from before there was a handle.
};

/// A handle that adds what is pushed; exactly one value for each key.
template <typename Val>
struct KVServerDefaultHandle {
  void operator()(const KVMeta& req_meta, const KVPairs<Val>& req_data, KVServer<Val>* server) {
    const size_t n = req_data.keys.size();
    if (req_meta.push) CHECK_EQ(n, req_data.vals.size());
    KVPairs<Val> res;
    if (req_meta.pull) {
      res.keys = req_data.keys;
      res.vals.resize(n);
    }
    for (size_t i = 0; i < n; ++i) {
      Val& value = store[req_data.keys[i]];
      if (req_meta.push) value += req_data.vals[i];
      if (req_meta.pull) res.vals[i] = value;
    }
    server->Response(req_meta, res);
  }
  std::unordered_map<Key, Val> store;
};

}  // namespace ps
#endif  // PS_INTERNAL_KV_SERVER_H_

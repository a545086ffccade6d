// The worker's side of key-value requests: Push, Pull, PushPull.
//
// A request is checked and cut before anything of it is sent, so that a bad one changes nothing.
// Responses to a pull are kept until the last one has come; then the values are put together in
// the order of the keys, and the callback runs. kv_gather.h does the putting together.
#ifndef PS_INTERNAL_KV_WORKER_H_
#define PS_INTERNAL_KV_WORKER_H_

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "ps/internal/kv_gather.h"
#include "ps/internal/kv_pairs.h"
#include "ps/simple_app.h"

namespace ps {

/// All requests may be made from any thread. They return a number for Wait at once.
///
/// In all of them: `keys` sorted and unique; `lens` (int for each key) may be empty, then all keys
/// have equally many values; `cmd` is handed to the server's handler; `cb` is called when the
/// request is done, before Wait returns; it must not Wait for this worker's requests itself.
template <typename Val>
class KVWorker : public SimpleApp {
 public:
  using SimpleApp::obj_;
  using Callback = std::function<void()>;
  using SlicedKVs = KVSlices<Val>;
  /// Cuts `send` into one part for each range; `sliced` gets as many elements as `ranges`.
  using Slicer = std::function<void(const KVPairs<Val>& send, const std::vector<Range>& ranges,
                                    SlicedKVs* sliced)>;

  KVWorker(int app_id, int customer_id) : SimpleApp() {
    obj_ = new Customer(app_id, customer_id, [this](const Message& msg) { Process(msg); });
  }
  /// The older form.
  explicit KVWorker(int app_id) : KVWorker(app_id, app_id) {}
  ~KVWorker() override {
    delete obj_;
    obj_ = nullptr;
  }

  /// Copies its arguments.
  int Push(const std::vector<Key>& keys, const std::vector<Val>& vals,
           const std::vector<int>& lens = {}, int cmd = 0, const Callback& cb = nullptr,
           int priority = 0) {
    return ZPush(SArray<Key>(keys), SArray<Val>(vals), SArray<int>(lens), cmd, cb, priority);
  }

  /// `vals` and `lens` are filled when the request is done; they are empty (and then resized) or
  /// have the right size, and live until then.
  int Pull(const std::vector<Key>& keys, std::vector<Val>* vals, std::vector<int>* lens = nullptr,
           int cmd = 0, const Callback& cb = nullptr, int priority = 0) {
    return StartPull(SArray<Key>(keys), vals, lens, cmd, cb, priority);
  }

  /// Pushes `vals` and pulls into `outs` in one request.
  int PushPull(const std::vector<Key>& keys, const std::vector<Val>& vals, std::vector<Val>* outs,
               std::vector<int>* lens = nullptr, int cmd = 0, const Callback& cb = nullptr,
               int priority = 0) {
    CHECK_NOTNULL(outs);
    if (!outs->empty() && outs->size() != vals.size()) {
      LOG(FATAL) << "outs has " << outs->size() << " elements for " << vals.size() << " values";
    }
    return StartPushPull(SArray<Key>(keys), SArray<Val>(vals),
                         lens != nullptr ? SArray<int>(*lens) : SArray<int>(), outs, lens, cmd, cb,
                         priority);
  }

  /// Returns when the request is done; fails (dmlc::Error) if it cannot be.
  /// Then the program has the arrays back that it pulls into: an answer that comes later is
  /// dropped. What it pushes without a copy (ZPush) other servers may still read after a failure.
  void Wait(int timestamp) override {
    try {
      obj_->WaitRequest(timestamp);
    } catch (...) {
      Forget(timestamp);
      throw;
    }
  }

  /// Without copies: the arrays must stay as they are until the request is done.
  int ZPush(const SArray<Key>& keys, const SArray<Val>& vals, const SArray<int>& lens = {},
            int cmd = 0, const Callback& cb = nullptr, int priority = 0) {
    KVPairs<Val> kvs;
    kvs.keys = keys;
    kvs.vals = vals;
    kvs.lens = lens;
    kvs.priority = priority;
    SlicedKVs sliced;
    Slice(kvs, &sliced);
    const int ts = Open(sliced);
    AddCallback(ts, cb);
    Send(ts, true, false, cmd, sliced);
    return ts;
  }
  int ZPull(const SArray<Key>& keys, SArray<Val>* vals, SArray<int>* lens = nullptr, int cmd = 0,
            const Callback& cb = nullptr, int priority = 0) {
    return StartPull(keys, vals, lens, cmd, cb, priority);
  }
  int ZPushPull(const SArray<Key>& keys, const SArray<Val>& vals, SArray<Val>* outs,
                SArray<int>* lens = nullptr, int cmd = 0, const Callback& cb = nullptr,
                int priority = 0) {
    return StartPushPull(keys, vals, lens != nullptr ? *lens : SArray<int>(), outs, lens, cmd, cb,
                         priority);
  }

  /// From now on the program cuts its requests itself, by ranges: those of the whole job, as if it
  /// used GetServerKeyRanges.
  void set_slicer(const Slicer& slicer) {
    CHECK(slicer) << "a slicer must be callable";
    (void)&internal::AsksForRanges<Val>::noted;
    Postoffice::Get()->AskForRanges();
    slicer_ = slicer;
  }

 protected:
  void Process(const Message& msg) override {
    if (msg.meta.simple_app) {
      SimpleApp::Process(msg);
      return;
    }
    if (msg.meta.request) return;  // Nobody sends key-value requests to workers.
    const int ts = msg.meta.timestamp;
    if (msg.meta.pull && !Keep(msg)) return;
    if (obj_->NumResponse(ts) == Postoffice::Get()->num_servers() - 1) RunCallback(ts);
  }

 private:
  template <typename Vals, typename Lens>
  int StartPull(const SArray<Key>& keys, Vals* vals, Lens* lens, int cmd, const Callback& cb,
                int priority) {
    CHECK_NOTNULL(vals);
    KVPairs<Val> kvs;
    kvs.keys = keys;
    kvs.priority = priority;
    SlicedKVs sliced;
    const bool hashed = Slice(kvs, &sliced);
    const int ts = Open(sliced);
    AddGather(ts, keys, vals, lens, hashed, cb);
    if (!hashed && lens == nullptr) OfferRooms(ts, sliced, keys.size(), kvs.vals, vals);
    Send(ts, false, true, cmd, sliced);
    return ts;
  }

  template <typename Vals, typename Lens>
  int StartPushPull(const SArray<Key>& keys, const SArray<Val>& vals, const SArray<int>& in_lens,
                    Vals* outs, Lens* lens, int cmd, const Callback& cb, int priority) {
    CHECK_NOTNULL(outs);
    KVPairs<Val> kvs;
    kvs.keys = keys;
    kvs.vals = vals;
    kvs.lens = in_lens;
    kvs.priority = priority;
    SlicedKVs sliced;
    const bool hashed = Slice(kvs, &sliced);
    const int ts = Open(sliced);
    AddGather(ts, keys, outs, lens, hashed, cb);
    if (!hashed && lens == nullptr) OfferRooms(ts, sliced, keys.size(), vals, outs);
    Send(ts, true, true, cmd, sliced);
    return ts;
  }

  /// Fails before anything has happened. True if the parts went by hash.
  bool Slice(const KVPairs<Val>& kvs, SlicedKVs* sliced) {
    Postoffice* const office = Postoffice::Get();
    if (slicer_) {
      slicer_(kvs, office->KeyRanges(), sliced);
      CHECK_EQ(sliced->size(), static_cast<size_t>(office->num_servers()))
          << "a slicer gives one part for each server";
      return false;
    }
    internal::CheckPairs(kvs);
    if (office->partition() == Partition::kHash) {
      internal::SliceByHash(kvs, static_cast<size_t>(office->num_servers()), sliced);
      return true;
    }
    internal::SliceByRanges(kvs, office->KeyRanges(), sliced);
    return false;
  }

  /// A request to those servers that have a part in it.
  int Open(const SlicedKVs& sliced) {
    std::vector<int> asked;
    for (size_t i = 0; sliced.size() > 1 && i < sliced.size(); ++i) {
      if (sliced[i].first) asked.push_back(Postoffice::ServerRankToID(static_cast<int>(i)));
    }
    if (sliced.size() > 1 && asked.empty()) asked.push_back(0);  // Nobody: no node is called 0.
    return obj_->NewRequest(kServerGroup, asked);
  }

  void AddCallback(int ts, const Callback& cb) {
    if (!cb) return;
    std::lock_guard<std::mutex> lock(mutex_);
    callbacks_[ts] = cb;
  }

  template <typename Vals, typename Lens>
  void AddGather(int ts, const SArray<Key>& keys, Vals* vals, Lens* lens, bool hashed,
                 const Callback& cb) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      gathers_.insert(ts);
    }
    AddCallback(ts, [this, ts, keys, vals, lens, hashed, cb]() {
      const size_t servers = static_cast<size_t>(Postoffice::Get()->num_servers());
      std::vector<KVPairs<Val>> parts;
      std::string problem;
      {
        // Held while the arrays are written: Forget() gives them back to the program.
        std::lock_guard<std::mutex> lock(mutex_);
        if (gathers_.erase(ts) == 0) return;
        const auto it = pulled_.find(ts);
        if (it != pulled_.end()) {
          parts.swap(it->second);
          pulled_.erase(it);
        }
        problem = internal::Gather(keys, &parts, hashed ? servers : 0, vals, lens);
      }
      if (!problem.empty()) {
        obj_->FailRequest(ts, problem);
      } else if (cb) {
        cb();
      }
    });
  }

  /// If all keys have equally many values, it is known where each server's will stand.
  template <typename Vals>
  void OfferRooms(int ts, const SlicedKVs& sliced, size_t keys, const SArray<Val>& pushed,
                  Vals* vals) {
    if (slicer_ || keys == 0 || vals->empty() || vals->size() % keys != 0) return;
    const std::less<const Val*> before{};
    Val* const begin = vals->data();
    // What is pushed must stay as it is until all servers have it.
    if (before(begin, pushed.end()) && before(pushed.begin(), begin + vals->size())) return;
    const size_t width = vals->size() / keys;
    size_t at = 0;
    for (size_t i = 0; i < sliced.size(); ++i) {
      const size_t count = sliced[i].second.keys.size() * width;
      obj_->OfferRoom(ts, static_cast<int>(i),
                      SArray<char>(reinterpret_cast<char*>(begin + at), count * sizeof(Val)));
      at += count;
    }
  }

  /// Keeps the values of a response; false if it has none.
  bool Keep(const Message& msg) {
    if (msg.data.size() < 2) {
      obj_->FailRequest(msg.meta.timestamp,
                        "server " + std::to_string(Postoffice::IDtoRank(msg.meta.sender)) +
                            " answered a pull without keys and values");
      return false;
    }
    KVPairs<Val> kvs;
    kvs.keys = msg.data[0];
    kvs.vals = msg.data[1];
    if (msg.data.size() > 2) kvs.lens = msg.data[2];
    std::lock_guard<std::mutex> lock(mutex_);
    if (gathers_.count(msg.meta.timestamp) == 0) return true;  // Nobody wants it any more.
    pulled_[msg.meta.timestamp].push_back(std::move(kvs));
    return true;
  }

  /// Nothing of this request is touched any more; waits for a Gather under way.
  void Forget(int ts) {
    std::lock_guard<std::mutex> lock(mutex_);
    callbacks_.erase(ts);
    gathers_.erase(ts);
    pulled_.erase(ts);
  }

  void RunCallback(int ts) {
    Callback cb;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      const auto it = callbacks_.find(ts);
      if (it == callbacks_.end()) return;
      cb = std::move(it->second);
      callbacks_.erase(it);
    }
    cb();
  }

  void Send(int ts, bool push, bool pull, int cmd, const SlicedKVs& sliced) {
    int skipped = 0;
    for (const auto& part : sliced) skipped += part.first ? 0 : 1;
    if (static_cast<size_t>(skipped) == sliced.size()) RunCallback(ts);
    // Before the rest is sent: afterwards the last response must find the count complete.
    if (skipped > 0) obj_->AddResponse(ts, skipped);
    for (size_t i = 0; i < sliced.size(); ++i) {
      if (!sliced[i].first) continue;
      const KVPairs<Val>& kvs = sliced[i].second;
      Message msg;
      msg.meta.app_id = obj_->app_id();
      msg.meta.customer_id = obj_->customer_id();
      msg.meta.request = true;
      msg.meta.push = push;
      msg.meta.pull = pull;
      msg.meta.head = cmd;
      msg.meta.timestamp = ts;
      msg.meta.recver = Postoffice::ServerRankToID(static_cast<int>(i));
      msg.meta.priority = kvs.priority;
      if (!kvs.keys.empty()) {
        msg.data.reserve(3);
        msg.AddData(kvs.keys);
        msg.AddData(kvs.vals);
        if (!kvs.lens.empty()) msg.AddData(kvs.lens);
      }
      Postoffice::Get()->van()->Send(msg);
    }
  }

  std::mutex mutex_;  // Guards all below but the slicer.
  std::unordered_map<int, std::vector<KVPairs<Val>>> pulled_;
  std::unordered_map<int, Callback> callbacks_;
  std::unordered_set<int> gathers_;  // Pulls whose arrays are still to be filled.
  Slicer slicer_;
};

}  // namespace ps
#endif  // PS_INTERNAL_KV_WORKER_H_

// The parameter server's interface, as ps-lite's programs know it, in both of its generations.
//
//   2018 and later   Start(customer_id)  StartAsync(customer_id)  Finalize(customer_id, barrier)
//   before           Start()             StartAsync()             Finalize(barrier)
//
// docs/ps-lite.md says what works, what differs and which variables configure it.
#ifndef PS_PS_H_
#define PS_PS_H_

#include "ps/base.h"
#include "ps/kv_app.h"
#include "ps/simple_app.h"

namespace ps {

inline int NumWorkers() { return Postoffice::Get()->num_workers(); }
inline int NumServers() { return Postoffice::Get()->num_servers(); }
inline bool IsWorker() { return Postoffice::Get()->is_worker() != 0; }
inline bool IsServer() { return Postoffice::Get()->is_server() != 0; }
inline bool IsScheduler() { return Postoffice::Get()->is_scheduler() != 0; }
/// Among the servers, or among the workers, from 0.
inline int MyRank() { return Postoffice::Get()->my_rank(); }

/// Joins the job and returns when all nodes have done so.
inline void Start(int customer_id, const char* argv0 = nullptr) {
  Postoffice::Get()->Start(customer_id, argv0, true);
}
inline void Start(const char* argv0 = nullptr) { Postoffice::Get()->Start(0, argv0, true); }

/// Returns when this node knows all others; they may not have returned yet.
inline void StartAsync(int customer_id, const char* argv0 = nullptr) {
  Postoffice::Get()->Start(customer_id, argv0, false);
}
inline void StartAsync(const char* argv0 = nullptr) { Postoffice::Get()->Start(0, argv0, false); }

/// Leaves the job; with `do_barrier` when all do.
inline void Finalize(int customer_id, bool do_barrier = true) {
  Postoffice::Get()->Finalize(customer_id, do_barrier);
}
inline void Finalize(bool do_barrier = true) { Postoffice::Get()->Finalize(0, do_barrier); }

/// Called at the end of Finalize of customer 0.
inline void RegisterExitCallback(const std::function<void()>& cb) {
  Postoffice::Get()->RegisterExitCallback(cb);
}

}  // namespace ps
#endif  // PS_PS_H_

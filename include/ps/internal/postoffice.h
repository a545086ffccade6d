// What a process knows about its job: roles, ids, groups, key ranges, barriers.
#ifndef PS_INTERNAL_POSTOFFICE_H_
#define PS_INTERNAL_POSTOFFICE_H_

#include <functional>
#include <string>
#include <vector>

#include "ps/base.h"
#include "ps/internal/customer.h"
#include "ps/internal/env.h"
#include "ps/internal/van.h"
#include "ps/range.h"

namespace ps {

/// How keys find their servers: one way for the whole job (docs/ps-lite.md, "Keys to servers").
enum class Partition {
  kRanges,  ///< Server i of n owns the i-th of n equal ranges.
  kHash,    ///< By a mixed hash of the key.
};

namespace internal {

/// Notes that this process asks for ranges. Returns true.
bool NoteRangesAsked();

/// A template that refers to `noted` makes the program, or library, in which it is instantiated
/// note it when that is loaded: before Start, and whether the function is called or not. So all
/// processes can agree at Start on how keys are cut. `Asker` is any type.
template <typename Asker>
struct AsksForRanges {
  static const bool noted;
};
template <typename Asker>
const bool AsksForRanges<Asker>::noted = NoteRangesAsked();

}  // namespace internal

/// One per process. Thread-safe.
class Postoffice {
 public:
  static Postoffice* Get();
  Postoffice(const Postoffice&) = delete;
  Postoffice& operator=(const Postoffice&) = delete;

  Van* van() { return &van_; }

  /// Joins the job that DMLC_* describe, and waits for the others. With several customers in a
  /// process each calls it, with its own id. Fails (dmlc::Error) if a setting is wrong, or if not
  /// all have come within SUMCAST_PS_START_TIMEOUT; the text names who is missing.
  void Start(int customer_id, const char* argv0, bool do_barrier);
  void Start(const char* argv0, bool do_barrier) { Start(0, argv0, do_barrier); }
  /// Leaves. Customer 0 calls it last; that ends the transport and calls the exit callback.
  void Finalize(int customer_id, bool do_barrier = true);
  void Finalize(bool do_barrier = true) { Finalize(0, do_barrier); }

  void RegisterExitCallback(const std::function<void()>& callback);

  /// Returns when each node of the group has called it as often as we did. Fails if one of them is
  /// gone, or after SUMCAST_PS_BARRIER_TIMEOUT, naming those that did not come.
  void Barrier(int customer_id, int node_group);
  void Barrier(int node_group) { Barrier(0, node_group); }

  /// A single node's id, or the members of a group.
  const std::vector<int>& GetNodeIDs(int node_id) const;
  /// ranges[i]: the keys of server i; the last one includes kMaxKey. A job in whose programs this
  /// is used has its keys cut by ranges. Fails (LOG(FATAL)) if Start could not know of the use: in
  /// a library that was loaded later. (A template, so that only a use is one; without arguments.)
  template <typename Asker = void>
  const std::vector<Range>& GetServerKeyRanges() {
    (void)&internal::AsksForRanges<Asker>::noted;
    return AskForRanges();
  }

  static int WorkerRankToID(int rank) { return rank * 2 + 9; }
  static int ServerRankToID(int rank) { return rank * 2 + 8; }
  static int IDtoRank(int id) { return id < 8 ? 0 : (id - 8) / 2; }

  int num_workers() const;
  int num_servers() const;
  int my_rank() const { return IDtoRank(van_.my_node().id); }
  int is_worker() const;
  int is_server() const;
  int is_scheduler() const;
  int verbose() const;
  bool is_recovery() const { return false; }

  /// Nodes that were found dead, or that have not been heard of for `t` seconds. The scheduler
  /// knows all, the others know the scheduler, and servers for which others stand in.
  std::vector<int> GetDeadNodes(int t = 60);

  /// Null after `timeout` seconds.
  Customer* GetCustomer(int app_id, int customer_id, int timeout = 0) const;

  /// As GetServerKeyRanges, without asking.
  const std::vector<Range>& KeyRanges() const;
  /// How requests are cut; known once Start has returned.
  Partition partition() const;
  /// What GetServerKeyRanges and set_slicer do.
  const std::vector<Range>& AskForRanges();

  /// Requests of this application and command only ever add: Push values may be summed on their
  /// way, before a handler sees them. See DeclareMergeable.
  void DeclareMergeable(int app_id, int cmd);
  bool IsMergeable(int app_id, int cmd) const;

 private:
  Postoffice() {}

  Van van_;
};

/// Declares requests (app_id, cmd) mergeable: their handler only adds float values, so a sum may
/// stand for its addends. To be called by all workers and servers, before Start.
inline void DeclareMergeable(int app_id, int cmd) {
  Postoffice::Get()->DeclareMergeable(app_id, cmd);
}

}  // namespace ps

#define PS_VLOG(x) LOG_IF(INFO, (x) <= ::ps::Postoffice::Get()->verbose())

#endif  // PS_INTERNAL_POSTOFFICE_H_

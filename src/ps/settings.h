// The job as the environment describes it: DMLC_* and PS_* as ps-lite reads them, and our own.
//
// A value that is missing or wrong is an error that names the variable. docs/ps-lite.md lists them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "ps/internal/message.h"
#include "ps/internal/postoffice.h"

namespace sumcast::ps {

/// Node ids are ints, and 2 * rank + 9 must be one; what the scheduler keeps grows with each.
inline constexpr int kNodesMax = 1 << 20;

struct Settings {
  ::ps::Node::Role role = ::ps::Node::WORKER;  ///< DMLC_ROLE: worker, server, scheduler.
  int num_workers = 0;                         ///< DMLC_NUM_WORKER: customers of workers, from 1.
  int num_servers = 0;                         ///< DMLC_NUM_SERVER
  std::string root_host;                       ///< DMLC_PS_ROOT_URI: where the scheduler is.
  uint16_t root_port = 0;                      ///< DMLC_PS_ROOT_PORT
  std::string node_host;                       ///< DMLC_NODE_HOST; empty: found by route.
  std::string interface;                       ///< DMLC_INTERFACE
  uint16_t port = 0;                           ///< PORT; 0: any.
  int verbose = 0;                             ///< PS_VERBOSE: 1 who comes and goes, 2 messages.
  bool any_address = false;      ///< DMLC_USE_KUBERNETES: the scheduler listens on all.
  bool by_priority = false;      ///< DMLC_PS_VAN_TYPE=p3: urgent frames overtake.
  size_t water_mark = 0;         ///< DMLC_PS_WATER_MARK: frames queued to a node; 0: any.
  bool resend = false;           ///< PS_RESEND
  Duration resend_timeout = 1s;  ///< PS_RESEND_TIMEOUT, ms: before the first sample.
  double drop = 0;               ///< PS_DROP_MSG, percent there; 0 to 1 here.
  uint64_t drop_seed = 1;        ///< SUMCAST_PS_DROP_SEED
  Duration heartbeat = 250ms;    ///< PS_HEARTBEAT_INTERVAL, s
  /// PS_HEARTBEAT_TIMEOUT, s: then a node is dead. It is looked at once an interval, so death is
  /// known within both: by default 2 s.
  Duration silence_max = 1700ms;
  Duration start_timeout = 300s;  ///< SUMCAST_PS_START_TIMEOUT
  Duration wait_timeout = 1h;     ///< SUMCAST_PS_WAIT_TIMEOUT; 0: as long as all live.
  Duration barrier_timeout{0};    ///< SUMCAST_PS_BARRIER_TIMEOUT; 0 as above.
  bool lend = true;               ///< SUMCAST_PS_LEND: 0 or 1; see loan.h.
  Duration spin = 400us;          ///< SUMCAST_SPIN
  /// SUMCAST_PS_PARTITION: ranges, hash; nothing: as programs ask (key_plan.h).
  std::optional<::ps::Partition> partition;
  bool replicas = false;  ///< SUMCAST_PS_REPLICAS: 0 or 1; the next server repeats what one does.
  bool merge = true;      ///< SUMCAST_PS_MERGE: 0 or 1; sum what was declared mergeable.
  Duration merge_wait = 20ms;  ///< SUMCAST_PS_MERGE_WAIT: at most so long a sum gathers.
  int merge_heat = 1;          ///< SUMCAST_PS_MERGE_HEAT; see heat.h.
  std::string key_file;        ///< SUMCAST_KEY_FILE; empty: connections are open.
  /// Variables of ps-lite's kin that are set to something, and that nothing here obeys.
  std::vector<std::string> ignored;
};

/// @param find  the value of a variable; null if it is unset or empty.
/// Errors: kInvalidArgument, naming the variable and what it may be.
Result<Settings> read_settings(const std::function<const char*(const char*)>& find);

}  // namespace sumcast::ps

// Keys and the names of node groups.
#ifndef PS_BASE_H_
#define PS_BASE_H_

// What ps-lite's headers bring along, and programs rely on without including it themselves.
#include <inttypes.h>
#include <string.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <ctime>
#include <functional>
#include <iostream>
#include <limits>
#include <list>
#include <memory>
#include <mutex>
#include <queue>
#include <sstream>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "ps/internal/utils.h"

namespace ps {

#if defined(USE_KEY32) && USE_KEY32
using Key = uint32_t;
#else
using Key = uint64_t;
#endif

/// The largest key. It is a key like any other.
static const Key kMaxKey = std::numeric_limits<Key>::max();

/// The scheduler's node id, and groups; groups add up.
static const int kScheduler = 1;
static const int kServerGroup = 2;
static const int kWorkerGroup = 4;

}  // namespace ps
#endif  // PS_BASE_H_

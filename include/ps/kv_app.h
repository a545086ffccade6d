// Key-value requests: workers push and pull, servers answer.
#ifndef PS_KV_APP_H_
#define PS_KV_APP_H_

#include "ps/base.h"
#include "ps/internal/kv_pairs.h"
#include "ps/internal/kv_server.h"
#include "ps/internal/kv_worker.h"
#include "ps/simple_app.h"

#endif  // PS_KV_APP_H_

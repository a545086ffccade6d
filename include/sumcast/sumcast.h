/* Sumcast's C API. The ABI is stable: structures begin with their size, enumerators are never
 * renumbered, functions are only added.
 *
 * Structures grow at their end only. Set `size` to sizeof the structure, and what you do not use to
 * zero. A library that is newer takes what an older program does not know for zero; one that is
 * older refuses a structure whose end it does not know, unless all of that is zero.
 *
 * Every function returns 0 or one of sumcast_error; sumcast_last_error() has the line to show a
 * person. Handles belong to the caller until the matching *_free. Tensors are contiguous and the
 * caller's; an asynchronous operation uses them until its work has been waited for. Functions may
 * be called from any thread, but a handle may be freed only once no other call uses it. The rules
 * on order, groups and failure are those of sumcast.hpp. */
#ifndef SUMCAST_SUMCAST_H
#define SUMCAST_SUMCAST_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum sumcast_error {
  SUMCAST_OK = 0,
  SUMCAST_INVALID_ARGUMENT = 1,
  SUMCAST_UNSUPPORTED = 2,
  SUMCAST_UNAVAILABLE = 3,
  SUMCAST_TIMEOUT = 4,
  SUMCAST_MISMATCH = 5,
  SUMCAST_ABORTED = 6,
  SUMCAST_DENIED = 7,
  SUMCAST_NO_SLOTS = 8,
  SUMCAST_SYSTEM = 9,
  SUMCAST_INTERNAL = 10
};

enum sumcast_type {
  SUMCAST_I8 = 0,
  SUMCAST_U8 = 1,
  SUMCAST_I16 = 2,
  SUMCAST_I32 = 3,
  SUMCAST_I64 = 4,
  SUMCAST_F16 = 5,
  SUMCAST_BF16 = 6,
  SUMCAST_F32 = 7,
  SUMCAST_F64 = 8,
  SUMCAST_BOOL = 9
};

enum sumcast_reduction {
  SUMCAST_SUM = 0,
  SUMCAST_AVG = 1,
  SUMCAST_MIN = 2,
  SUMCAST_MAX = 3,
  SUMCAST_PRODUCT = 4,
  SUMCAST_AND = 5,
  SUMCAST_OR = 6,
  SUMCAST_XOR = 7
};

enum sumcast_wire {
  SUMCAST_WIRE_NATIVE = 0,
  SUMCAST_WIRE_BF16 = 1,
  SUMCAST_WIRE_FP16 = 2,
  SUMCAST_WIRE_INT8 = 3,
  SUMCAST_WIRE_FIXED = 4
};

enum sumcast_algorithm {
  SUMCAST_AUTO = 0,
  SUMCAST_IN_NETWORK = 1,
  SUMCAST_DIRECT = 2,
  SUMCAST_RING = 3,
  SUMCAST_HALVING_DOUBLING = 4,
  SUMCAST_SERVER = 5
};

typedef struct sumcast_context sumcast_context;
typedef struct sumcast_group sumcast_group;
typedef struct sumcast_work sumcast_work;

/* Set `size` to sizeof(sumcast_options), all else to zero or NULL for defaults. */
typedef struct sumcast_options {
  size_t size;
  const char* job;         /* default "sumcast" */
  uint32_t rank, world;    /* world 0: from the launcher's environment */
  const char* aggregator;  /* "host:port", NULL: none, or SUMCAST_AGGREGATOR if world is 0 */
  const char* coordinator; /* where rank 0 listens, without an aggregator */
  const char* key_file;
  int32_t insecure;
  int32_t algorithm;       /* enum sumcast_algorithm */
  int64_t timeout_ms;      /* 0: 10 minutes */
  int64_t join_timeout_ms; /* 0: 1 minute */
  const char* interface_name;

  const uint8_t* key; /* 32 bytes, instead of key_file; NULL: none. Copied, and the copy wiped. */
  /* Rank 0 without an aggregator: called before it waits for the others, with the "address:port"
   * that they are to be given as coordinator (whose port may then be 0). */
  void (*on_listening)(void* user, const char* address);
  void* user;
  int32_t use_settings; /* world is not 0: take SUMCAST_* and the configuration file too */
  /* Not 0: ranks of one host share no memory, each is a host for itself; equal on all ranks. */
  int32_t one_rank_per_host;
} sumcast_options;

/* What one call may choose; NULL for defaults. */
typedef struct sumcast_call {
  size_t size;
  int32_t algorithm;  /* enum sumcast_algorithm */
  int32_t wire;       /* enum sumcast_wire */
  int64_t timeout_ms; /* 0: the context's */
} sumcast_call;

/* The last error of this thread, one line; "" if there was none. Valid until its next call. */
const char* sumcast_last_error(void);
/* "0.1.0" */
const char* sumcast_version(void);

int sumcast_context_create(const sumcast_options* options, sumcast_context** context);
void sumcast_context_free(sumcast_context* context);
uint32_t sumcast_context_rank(const sumcast_context* context);
uint32_t sumcast_context_size(const sumcast_context* context);

/* The group of all ranks; a handle of its own, to be freed like any other. */
int sumcast_world(sumcast_context* context, sumcast_group** group);
int sumcast_group_create(sumcast_context* context, const uint32_t* ranks, size_t count,
                         const char* key, sumcast_group** group);
void sumcast_group_free(sumcast_group* group);
uint32_t sumcast_group_rank(const sumcast_group* group);
uint32_t sumcast_group_size(const sumcast_group* group);

/* With `work` NULL the call blocks; otherwise it returns at once and *work is to be waited for and
 * freed. Shapes as in sumcast.hpp: all-gather writes size*count elements, reduce-scatter reads
 * them. */
int sumcast_all_reduce(sumcast_group* group, const void* in, void* out, uint64_t count, int type,
                       int reduction, const sumcast_call* call, sumcast_work** work);
int sumcast_reduce(sumcast_group* group, const void* in, void* out, uint64_t count, int type,
                   int reduction, uint32_t root, const sumcast_call* call, sumcast_work** work);
int sumcast_broadcast(sumcast_group* group, void* data, uint64_t count, int type, uint32_t root,
                      const sumcast_call* call, sumcast_work** work);
int sumcast_all_gather(sumcast_group* group, const void* in, void* out, uint64_t count, int type,
                       const sumcast_call* call, sumcast_work** work);
int sumcast_reduce_scatter(sumcast_group* group, const void* in, void* out, uint64_t count,
                           int type, int reduction, const sumcast_call* call, sumcast_work** work);
int sumcast_barrier(sumcast_group* group, const sumcast_call* call, sumcast_work** work);

#define SUMCAST_ANY_RANK UINT32_MAX

/* One message of an exchange; as sumcast::Message. */
typedef struct sumcast_message {
  size_t size;    /* equal in all messages of a call, which lie side by side */
  void* data;     /* the caller's until the exchange is done; not written to when sent */
  uint64_t bytes; /* equal at both ends */
  uint32_t peer;  /* place in the group, not one's own; SUMCAST_ANY_RANK to receive from any */
  uint32_t check; /* any number; equal at both ends */
  uint64_t tag;   /* the highest bit belongs to sumcast_group_note_call */
} sumcast_message;

/* Messages as one operation: as Group::exchange_async, or blocking with `work` NULL. `on_done` may
 * be NULL; it is called from any thread and must not block. */
int sumcast_exchange(sumcast_group* group, const sumcast_message* sends, size_t send_count,
                     const sumcast_message* receives, size_t receive_count,
                     const sumcast_call* call, void (*on_done)(void* user), void* user,
                     sumcast_work** work);
/* What this rank calls as `number` (from 1, ascending) in a group whose ranks make the same calls,
 * as Group::note_call: messages with *tag (plus 0 to 255 for parts) notice ranks that call
 * something else. `tag` may be NULL, for calls that are not made of messages. */
int sumcast_group_note_call(sumcast_group* group, uint32_t number, const char* text, uint64_t* tag);
/* Of an exchange that is done: the place whose message came last, or SUMCAST_ANY_RANK. */
uint32_t sumcast_work_source(const sumcast_work* work);

/* Ends all operations of this rank in the group; a fence for their tensors. */
int sumcast_group_abort(sumcast_group* group, const char* reason);
/* The error that ended the group, or SUMCAST_OK. */
int sumcast_group_check(const sumcast_group* group);

/* timeout_ms < 0: the operation's own. A timeout aborts the group on all ranks. */
int sumcast_work_wait(sumcast_work* work, int64_t timeout_ms);
int sumcast_work_is_done(const sumcast_work* work);
void sumcast_work_free(sumcast_work* work);

typedef struct sumcast_counters {
  size_t size;
  uint64_t datagrams_sent, datagrams_received, retransmits, rejected, bytes_folded;
  uint64_t compact; /* of the datagrams sent, those that left blocks of zeros out */
} sumcast_counters;
/* Since the context was created. Set `size` to sizeof(sumcast_counters). */
int sumcast_context_counters(const sumcast_context* context, sumcast_counters* counters);

/* Texts go into `buffer`, 256 bytes or so; meeting.hpp says what they are. `interface_name` NULL:
 * as configured (SUMCAST_SOCKET_IFNAME). */
int sumcast_host_identity(char* buffer, size_t bytes);
/* A configured value (SUMCAST_* and the configuration file): "aggregator", "key_file", "insecure"
 * ("1" or ""), "socket_ifname", "algorithm". */
int sumcast_setting(const char* name, char* buffer, size_t bytes);
int sumcast_reachable_address(const char* peer, const char* interface_name, int allow_loopback,
                              char* buffer, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
